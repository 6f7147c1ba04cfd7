# frozen_string_literal: true

require_relative "helper"
require "timeout"

# What a call was granted is with its caller, or anyone's to claim, whatever interrupts the call.
class InterruptsTest < FencepostTest
  LEASE = { owner: "w", now: 100, ttl: 10 }.freeze

  # Each takes the job "b", and no other.
  CLAIMS = {
    "claim" => ->(db) { db.claim("b", **LEASE) },
    "claim!" => ->(db) { db.claim!("b", **LEASE) },
    "claim_next" => ->(db) { db.claim_next(**LEASE) },
    "claim_next!" => ->(db) { db.claim_next!(**LEASE) },
    "claim_batch" => ->(db) { db.claim_batch(**LEASE, max: 2) },
    "claim_batch!" => ->(db) { db.claim_batch!(**LEASE, max: 2) },
    "claim_many" => ->(db) { db.claim_many("b", owners: %w[u v w], now: 100, ttl: 10) },
    "claim_many!" => ->(db) { db.claim_many!("b", owners: %w[u v w], now: 100, ttl: 10) },
    "complete_and_claim_next" => ->(db) { db.complete_and_claim_next("a", fence: 1, **LEASE) },
    "complete_and_claim_next!" => ->(db) { db.complete_and_claim_next!("a", fence: 1, **LEASE) }
  }.freeze

  # Each changes a job, and says in SQL what is stored then.
  WRITES = {
    "enqueue" => [->(db) { db.enqueue("c") }, "id = 'c'"],
    "renew" => [->(db) { db.renew("a", fence: 1, **LEASE, ttl: 20) }, "id = 'a' AND until = 120"],
    "complete" => [->(db) { db.complete("a", owner: "w", fence: 1, now: 100) }, "id = 'a' AND done"],
    "release" => [->(db) { db.release("a", owner: "w", fence: 1) }, "id = 'a' AND owner IS NULL"]
  }.freeze

  INTERRUPTS = {
    "Timeout::Error" => ->(thread) { thread.raise(Timeout::Error) },
    "an Exception" => ->(thread) { thread.raise(Exception, "stop") },
    "Thread#kill" => :kill.to_proc
  }.freeze

  def setup
    super
    @db = open_db.init_db
    @db.enqueue("a")
    @db.claim("a", owner: "w", now: 100, ttl: 10)
    @db.enqueue("b")
  end

  def stored?(condition) = sqlite("SELECT count(*) FROM jobs WHERE #{condition}") == "1"

  # A thread that waits for the file's lock in the call; `seen` has what the caller was given.
  def waiting(seen = [])
    thread = Thread.new { seen << yield }
    thread.report_on_exception = false
    wait_until_asleep(thread)
    thread
  end

  def ended(thread)
    finish(thread)
  rescue Exception # rubocop:disable Lint/RescueException
    nil
  end

  def assert_given_back(fence = 1)
    job = @db.state("b")
    assert_equal [nil, 0.0, fence, false], [job.owner, job.until, job.fence, job.done]
    assert_equal ["b", fence + 1], @db.claim_next(owner: "another", now: 100, ttl: 10).to_a
  end

  CLAIMS.each do |name, claim|
    INTERRUPTS.each do |kind, interrupt|
      define_method("test_#{name}_gives_back_what_#{kind}_keeps_from_the_caller") do
        holder = lock
        call = waiting(seen = []) { claim.call(@db) }
        interrupt.call(call)
        unlock(holder)
        ended(call)
        assert_empty seen
        assert_given_back
        assert_equal name.start_with?("complete"), @db.state("a").done?
      end
    end

    # A trap handler's exception is not made to wait, so it ends the method in other places.
    define_method("test_#{name}_gives_back_what_a_trap_handler_keeps_from_the_caller") do
      in_child do
        trap(:USR1) { raise Interrupt }
        holder = lock
        main = Thread.current
        other = Thread.new do
          wait_until_asleep(main)
          Process.kill(:USR1, Process.pid)
          unlock(holder)
        end
        assert_raises(Interrupt) { claim.call(@db) }
        finish(other)
      end
      assert_given_back
    end

    # As programs stop: they kill their threads and close.
    define_method("test_#{name}_gives_back_before_a_close_that_waits") do
      holder = lock
      call = waiting(seen = []) { claim.call(@db) }
      call.kill
      closer = waiting { @db.close }
      unlock(holder)
      [call, closer].each { |thread| finish(thread) }
      assert_empty seen
      @db = open_db
      assert_given_back
    end

    # The exception comes while the call notes that it is over.
    define_method("test_#{name}_gives_back_what_comes_too_late_to_be_seen_in_the_call") do
      holder = lock
      call = waiting(seen = []) { claim.call(@db) }
      @db.instance_variable_get(:@handle).instance_variable_get(:@mutex).synchronize do
        unlock(holder)
        pass_until(call) { call.backtrace&.first&.include?("synchronize") }
        call.raise(Timeout::Error)
      end
      ended(call)
      assert_empty seen
      assert_given_back
    end

    # What the documentation tells callers to do. The exception comes after the assignment.
    define_method("test_#{name}_is_assigned_in_handle_interrupt") do
      answer = nil
      holder = lock
      call = waiting(seen = []) do
        Thread.handle_interrupt(Object => :never) { answer = claim.call(@db) }
      end
      call.raise(Timeout::Error)
      unlock(holder)
      ended(call)
      assert_equal [[], 1], [seen, @db.state("b").fence]
      assert_equal 110.0, @db.state("b").until
      refute_nil answer
      assert_nil @db.claim_next(owner: "another", now: 100, ttl: 10)
    end
  end

  # What Timeout does to a thread.
  WRITES.each do |name, (write, condition)|
    define_method("test_#{name}_that_waits_is_carried_out_before_a_timeout_ends_it") do
      holder = lock
      call = waiting(seen = []) { write.call(@db) }
      call.raise(Timeout::Error)
      wait_until_asleep(call)
      assert call.pending_interrupt?
      refute stored?(condition)
      unlock(holder)
      assert_raises(Timeout::Error) { finish(call) }
      assert_empty seen
      assert stored?(condition)
    end
  end

  def test_a_release_after_an_interrupt_waits_for_the_file_once_more
    holder = lock
    call = waiting(seen = []) { @db.claim("b", **LEASE) }
    @db.instance_variable_get(:@handle).instance_variable_get(:@mutex).synchronize do
      unlock(holder)
      pass_until(call) { call.backtrace&.first&.include?("synchronize") }
      holder = lock
      call.raise(Timeout::Error)
    end
    pass_until(call) { call.status == "sleep" && call.backtrace&.any? { |line| line.include?("give_back") } }
    assert stored?("id = 'b' AND owner = 'w'")
    unlock(holder)
    assert_raises(Timeout::Error) { finish(call) }
    assert_empty seen
    assert_given_back
  end

  def test_a_batch_is_given_back_whole
    @db.enqueue_many(%w[c d])
    holder = lock
    call = waiting { @db.claim_batch(**LEASE, max: 9) }
    call.kill
    unlock(holder)
    finish(call)
    assert_equal 3, @db.count(:claimable, now: 100)
  end

  def test_a_refusal_has_nothing_to_give_back
    holder = lock
    call = waiting { @db.claim("a", **LEASE) }
    call.raise(Timeout::Error)
    unlock(holder)
    ended(call)
    assert_equal ["w", 1], [@db.state("a").owner, @db.state("a").fence]
  end

  # At any moment, many times: as the documentation has it, no claim is lost.
  def test_a_thread_that_is_killed_at_random_loses_nothing
    @db.enqueue_many(Array.new(20) { |n| "job #{n}" })
    random = Random.new(Minitest.seed)
    100.times do
      seen = []
      thread = Thread.new { claim_for_ever(seen) }
      random.rand(50).times { Thread.pass }
      thread.kill
      finish(thread)
      assert_equal ["a", *seen.map(&:id)].sort, @db.list(:held, now: 100, max: 99).map(&:id).sort
      seen.each { |grant| @db.release(grant.id, owner: "w", fence: grant.fence) }
    end
  end

  def claim_for_ever(seen)
    loop do
      grant = nil
      begin
        Thread.handle_interrupt(Object => :never) { grant = @db.claim_next(**LEASE) }
      ensure
        seen << grant if grant
      end
    end
  end
end
