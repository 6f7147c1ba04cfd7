# frozen_string_literal: true

require_relative "helper"

# A call that waits must not make the other Ruby threads wait.
class BlockingTest < FencepostTest
  def test_every_call_that_can_touch_the_file_lets_other_threads_run
    out, err, status = ruby(File.join(__dir__, "standin_calls.rb"),
                            env: { "LD_LIBRARY_PATH" => standin(Fencepost::VERSION) })
    assert_equal ["", "all calls let another thread run\n"], [err, out]
    assert_predicate status, :success?
  end

  # The lock is let go by a thread of this process, which runs while the call waits for it.
  def test_a_call_waits_for_a_busy_file_while_another_thread_ends_the_wait
    db = open_db.init_db
    db.enqueue("a")
    holder = lock
    main = Thread.current
    other = Thread.new do
      wait_until_asleep(main)
      unlock(holder)
    end
    assert_equal 1, db.claim("a", owner: "w", now: 100, ttl: 10)
    finish(other)
  end

  def test_threads_share_a_handle
    db = open_db.init_db
    threads = Array.new(16) do |n|
      Thread.new do
        Array.new(5) do |round|
          db.enqueue("job #{round}")
          db.claim("job #{round}", owner: "w#{n}", now: 100, ttl: 10)
        end
      end
    end
    fences = threads.map { |thread| finish(thread) }.transpose
    assert_equal [[1]] * 5, fences.map(&:compact)
  end
end
