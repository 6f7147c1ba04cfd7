// A worker on plainjob; see worker.py. It calls what plainjob's own worker calls, without that one's timers and logs.
import { createInterface } from "node:readline";
import Database from "better-sqlite3";
import { better, defineQueue } from "plainjob";

const [, , , what, folder, more] = process.argv;
const database = new Database(`${folder}/queue.db`);
const silent = { error() {}, warn() {}, info() {}, debug() {} };
const queue = defineQueue({ connection: better(database), logger: silent });

// What the call gives, and how often it had to be made again because the file was locked.
let again = 0;
function insisting(call) {
  for (;;) {
    try {
      return call();
    } catch (error) {
      if (!String(error.code).startsWith("SQLITE_BUSY")) throw error;
      again++;
    }
  }
}

async function work() {
  const jobs = [];
  let longest = 0;
  const input = createInterface({ input: process.stdin });
  console.log("ready");
  await new Promise((resolve) => input.once("line", resolve));
  for (;;) {
    const begun = performance.now();
    const taken = insisting(() => queue.getAndMarkJobAsProcessing("job"));
    if (!taken) break;
    const job = queue.getJobById(taken.id);
    jobs.push(JSON.parse(job.data));
    insisting(() => queue.markJobAsDone(job.id));
    longest = Math.max(longest, performance.now() - begun);
  }
  console.log("done");
  const synchronous = database.pragma("synchronous", { simple: true });
  console.log(JSON.stringify({ jobs, longest_ms: longest, again, synchronous }));
  input.close();
}

if (what === "make") {
  for (let number = 0; number < Number(more); number++) queue.add("job", number);
} else {
  if (more === "full") database.pragma("synchronous = FULL");
  await work();
}
queue.close();
