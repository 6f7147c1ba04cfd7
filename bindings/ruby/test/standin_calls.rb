# frozen_string_literal: true

# Run by blocking_test.rb with standin.c in the place of the library: makes every call once, and lets another
# thread end it.

require "fencepost"

reader, WRITER = IO.pipe
ENV["STANDIN_PIPE"] = reader.fileno.to_s

# The byte is sent only while the calling thread is asleep in C.
def while_another_thread_runs
  caller = Thread.current
  other = Thread.new do
    Thread.pass until caller.status == "sleep"
    WRITER.write("x")
  end
  yield
ensure
  other.join
end

db = while_another_thread_runs { Fencepost.open("nothing") }
lease = { owner: "w", fence: 1 }
while_another_thread_runs { db.init_db }
while_another_thread_runs { db.enqueue("a") }
while_another_thread_runs { db.state("a") }
while_another_thread_runs { db.claim("a", owner: "w", now: 1, ttl: 1) }
while_another_thread_runs { db.renew("a", **lease, now: 1, ttl: 1) }
while_another_thread_runs { db.complete("a", **lease, now: 1) }
while_another_thread_runs { db.release("a", **lease) }
while_another_thread_runs { db.claim_many("a", owners: ["w"], now: 1, ttl: 1) }
while_another_thread_runs { db.enqueue_at("a", not_before: 1) }
while_another_thread_runs { db.enqueue_many(["a"]) }
while_another_thread_runs { db.release_at("a", **lease, not_before: 1) }
while_another_thread_runs { db.claim_next(owner: "w", now: 1, ttl: 1) }
while_another_thread_runs { db.claim_batch(owner: "w", now: 1, ttl: 1, max: 1) }
while_another_thread_runs { db.force_release("a") }
while_another_thread_runs { db.requeue("a") }
while_another_thread_runs { db.purge(max: 1) }
while_another_thread_runs { db.raise_floor(1) }
while_another_thread_runs { db.complete_and_claim_next("a", **lease, now: 1, ttl: 1) }
while_another_thread_runs { db.count(:held, now: 1) }
while_another_thread_runs { db.list(:held, now: 1, max: 1) }
while_another_thread_runs { db.close }
puts "all calls let another thread run"
