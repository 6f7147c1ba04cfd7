# frozen_string_literal: true

require_relative "helper"
require "timeout"

# The end of a handle, and what interrupts its calls.
class CloseTest < FencepostTest
  def setup
    super
    @db = open_db.init_db
    @db.enqueue("a")
  end

  def claim = @db.claim("a", owner: "w", now: 100, ttl: 10)

  def test_close_may_be_called_again
    refute_predicate @db, :closed?
    2.times { assert_nil @db.close }
    assert_predicate @db, :closed?
  end

  def test_every_call_after_close_raises_closed
    @db.close
    lease = { owner: "w", fence: 1 }
    [
      -> { @db.init_db }, -> { @db.enqueue("a") }, -> { @db.enqueue!("a") }, -> { @db.state("a") },
      -> { claim }, -> { @db.renew("a", **lease, now: 100, ttl: 10) },
      -> { @db.complete("a", **lease, now: 100) }, -> { @db.release("a", **lease) },
      -> { @db.claim_many("a", owners: ["w"], now: 100, ttl: 10) }
    ].each do |call|
      closed = assert_raises(Fencepost::Closed, &call)
      assert_kind_of Fencepost::Error, closed
      assert_nil closed.status
    end
  end

  def test_leases_stay_when_a_handle_is_closed
    fence = claim
    @db.close
    assert_equal true, open_db.renew("a", owner: "w", fence: fence, now: 101, ttl: 10)
  end

  def test_close_waits_for_a_call_of_another_thread
    holder = lock
    call = Thread.new { claim }
    wait_until_asleep(call)
    closers = Array.new(2) { Thread.new { @db.close } }
    closers.each { |closer| wait_until_asleep(closer) }
    assert_raises(Fencepost::Closed) { @db.state("a") }
    assert_predicate call, :alive?
    unlock(holder)
    assert_equal 1, finish(call)
    closers.each { |closer| assert_nil finish(closer) }
  end

  def test_close_beside_many_calls_ends_each_with_an_answer_or_closed
    started = Queue.new
    threads = Array.new(8) do |n|
      Thread.new do
        (1..).each do |round|
          @db.enqueue("#{n} #{round}")
          started << true
        end
      rescue Fencepost::Closed
        :closed
      end
    end
    16.times { started.pop }
    finish(Thread.new { @db.close })
    assert_equal([:closed] * 8, threads.map { |thread| finish(thread) })
  end

  # The wait for the file cannot be cut short, so the claim is carried out first.
  def test_a_thread_that_is_killed_in_a_call_leaves_the_handle_whole
    holder = lock
    call = Thread.new { claim }
    wait_until_asleep(call)
    call.kill
    unlock(holder)
    finish(call)
    assert_equal 1, @db.state("a").fence
    assert_nil finish(Thread.new { @db.close })
  end

  def test_an_exception_of_another_thread_comes_after_the_call
    holder = lock
    call = Thread.new { claim }
    call.report_on_exception = false
    wait_until_asleep(call)
    call.raise(Timeout::Error)
    unlock(holder)
    assert_raises(Timeout::Error) { finish(call) }
    assert_equal 1, @db.state("a").fence
    assert_nil finish(Thread.new { @db.close })
  end

  # The exception comes while the call notes that it is over.
  def test_an_exception_of_another_thread_leaves_no_call_behind
    holder = lock
    go_on = Queue.new
    call = Thread.new { claim_until_timeout_and { go_on.pop } }
    wait_until_asleep(call)
    @db.instance_variable_get(:@handle).instance_variable_get(:@mutex).synchronize do
      unlock(holder)
      pass_until(call) { call.backtrace&.first&.include?("synchronize") }
      call.raise(Timeout::Error)
    end
    assert_nil finish(Thread.new { @db.close })
    go_on << true
    assert_equal true, finish(call)
  end

  def claim_until_timeout_and
    claim
  rescue Timeout::Error
    yield
  end

  # Until the main thread has run its trap handler, Ruby's idle threads send it one signal after the other.
  # The wait for the file must end all the same.
  def test_a_signal_during_a_call_leaves_the_handle_whole
    fences = in_child do
      nothing = Queue.new
      Array.new(4) { Thread.new { nothing.pop } }
      trap(:USR1) { raise Interrupt }
      Array.new(10) { |round| claim_interrupted(100 + (10 * round)) }
    end
    assert_equal [*1..10], fences
  end

  def claim_interrupted(now)
    holder = lock
    main = Thread.current
    other = Thread.new do
      wait_until_asleep(main)
      Process.kill(:USR1, Process.pid)
      unlock(holder)
    end
    assert_raises(Interrupt) { @db.claim("a", owner: "w", now: now, ttl: 10) }
    finish(other)
    finish(Thread.new { @db.state("a").fence })
  end

  def test_a_trap_handler_that_wakes_a_thread_is_fine
    signals = Queue.new
    waker = Thread.new { signals.pop && @db.state("a").id }
    previous = trap(:USR1) { signals << true }
    Process.kill(:USR1, Process.pid)
    assert_equal "a", finish(waker)
  ensure
    trap(:USR1, previous)
  end
end
