# frozen_string_literal: true

require_relative "helper"
require_relative "contract"

# Ruby's memory and the library's: nothing is freed too early, too late or twice.
class MemoryTest < FencepostTest
  STORY = Contract.cases(File.join(ROOT, "tests", "contract", "story.contract")).freeze

  # Collects at every allocation from here to the end of the block.
  def stressed
    GC.stress = true
    yield
  ensure
    GC.stress = false
  end

  def test_the_story_under_gc_stress
    STORY.each do |contract_case|
      Dir.mktmpdir(nil, @folder) do |folder|
        Contract::Runner.new(self, folder) { |&call| stressed(&call) }.run(contract_case)
      end
    end
  end

  def test_every_call_under_gc_stress
    answers = stressed { every_call }
    assert_equal ANSWERS, answers
  end

  # Another thread compacts the heap, also while the calls run without Ruby's lock.
  def test_every_call_while_the_heap_is_compacted
    skip "this Ruby does not compact" unless GC.respond_to?(:compact)

    stop = false
    compactor = Thread.new { GC.compact until stop }
    3.times do
      FileUtils.rm_f(Dir["#{path}*"])
      assert_equal ANSWERS, every_call
    end
    stop = true
    finish(compactor)
  end

  ANSWERS = [true, [nil, nil], [1], true, true, 2, true, "결과", [nil], Fencepost::Done, ArgumentError,
             [true, true, true], true, ["b", 1], [["c", 1]], ["d", 1], 2, true, %w[d e]].freeze

  def every_call
    Fencepost.open(path) do |db|
      db.init_db
      lease = { owner: "주인", fence: 1 }
      [db.enqueue("a"), db.claim_many("none", owners: %w[u v], now: 1, ttl: 1),
       db.claim_many("a", owners: ["주인"], now: 100, ttl: 10), db.renew("a", **lease, now: 101, ttl: 10),
       db.release("a", **lease), db.claim("a", owner: "w", now: 102, ttl: 10),
       db.complete("a", owner: "w", fence: 2, now: 103, result: "결과"), db.state("a").result,
       db.claim_many("a", owners: %w[u], now: 120, ttl: 1),
       raised { db.renew!("a", **lease, now: 1, ttl: 1) }, raised { db.enqueue("b\0") },
       *the_loop(db)]
    end
  end

  def the_loop(db)
    [db.enqueue_many(%w[b c d]), db.enqueue_at("e", not_before: 300),
     db.claim_next(owner: "w", now: 200, ttl: 9).to_a,
     db.claim_batch(owner: "w", now: 200, ttl: 9, max: 1).map(&:to_a),
     db.complete_and_claim_next("b", owner: "w", fence: 1, now: 201, ttl: 9).to_a, db.count(:done, now: 201),
     db.release_at("d", owner: "w", fence: 1, not_before: 400), db.list(:delayed, now: 201, max: 9).map(&:id)]
  end

  def raised
    yield
  rescue StandardError => e
    e.class
  end

  # 1 MB a job, 300 jobs: were they not freed, this process would have grown by as much.
  def test_jobs_are_freed
    db = open_db.init_db
    db.enqueue("a")
    db.claim("a", owner: "w", now: 100, ttl: 10)
    db.complete("a", owner: "w", fence: 1, now: 101, result: "x" * 1_000_000)
    read = proc { assert_equal 1_000_000, db.state("a").result.size }
    20.times(&read)
    before = resident_kib
    300.times(&read)
    assert_operator resident_kib - before, :<, 150_000
  end

  def resident_kib = File.read("/proc/self/status")[/^VmRSS:\s+(\d+)/, 1].to_i

  # What handles.rb prints: an address for each handle that is closed and each job that is freed.
  def test_every_handle_is_closed_once_and_every_job_freed
    out, err, status = ruby(File.join(__dir__, "handles.rb"), path)
    assert_equal ["", true], [err, status.success?]
    events = out.split("\n").slice_when { |_, line| line.end_with?(":") }
    counts = events.map { |_, *addresses| addresses.size }
    closed, closed_again, jobs_read, broken_off, collected, left_over = counts
    assert_equal [1, 0, 1, 1], [closed, closed_again, jobs_read, broken_off]
    # 2 that were kept open and 20 that were dropped, some of them before the end.
    assert_operator collected, :>, 0
    assert_equal 22, collected + left_over
  end
end
