# frozen_string_literal: true

require_relative "helper"

# What Ruby makes of the library's answers. The rules themselves are the contract's.
class DBTest < FencepostTest
  def setup
    super
    @db = open_db.init_db
    @db.enqueue("a")
  end

  def test_the_story
    a = @db.claim("a", owner: "A", now: 100, ttl: 10)
    assert_nil @db.claim("a", owner: "B", now: 109, ttl: 10)
    b = @db.claim("a", owner: "B", now: 110, ttl: 10)
    assert_operator b, :>, a
    assert_equal false, @db.complete("a", owner: "A", fence: a, now: 111, result: "A's")
    assert_equal true, @db.complete("a", owner: "B", fence: b, now: 111, result: "B's")
    assert_equal "B's", @db.state("a").result
  end

  def test_init_db_answers_the_db_any_number_of_times
    assert_same @db, @db.init_db
  end

  def test_enqueue_answers_whether_the_job_is_new
    assert_equal true, @db.enqueue("b")
    assert_equal false, @db.enqueue("b")
    assert_equal true, @db.enqueue!("c")
    assert_raises(Fencepost::Exists) { @db.enqueue!("c") }
  end

  def test_state_answers_a_frozen_job_or_nil
    assert_equal Fencepost::Job.new(id: "a", owner: nil, until: 0.0, fence: 0, result: nil, done: false),
                 @db.state("a")
    @db.claim("a", owner: "w", now: 100, ttl: 10)
    @db.complete("a", owner: "w", fence: 1, now: 101, result: "r")
    job = @db.state!("a")
    assert_equal ["a", "w", 110.0, 1, "r", true], job.to_a
    assert_predicate job, :done?
    assert_predicate job, :frozen?
    assert([job.id, job.owner, job.result].all?(&:frozen?))
    assert_nil @db.state("none")
    assert_raises(Fencepost::NotFound) { @db.state!("none") }
  end

  def test_claim_answers_a_fence_or_nil
    assert_equal 1, @db.claim("a", owner: "w", now: 100, ttl: 10)
    assert_nil @db.claim("a", owner: "v", now: 100, ttl: 10)
    assert_nil @db.claim("none", owner: "v", now: 100, ttl: 10)
    assert_equal 2, @db.claim!("a", owner: "v", now: 110, ttl: 10)
    assert_raises(Fencepost::Held) { @db.claim!("a", owner: "w", now: 110, ttl: 10) }
    assert_raises(Fencepost::NotFound) { @db.claim!("none", owner: "w", now: 110, ttl: 10) }
  end

  def test_renew_answers_true_or_false
    @db.claim("a", owner: "w", now: 100, ttl: 10)
    assert_equal true, @db.renew("a", owner: "w", fence: 1, now: 105, ttl: 10)
    assert_equal 115.0, @db.state("a").until
    assert_equal false, @db.renew("a", owner: "w", fence: 2, now: 105, ttl: 10)
    assert_equal true, @db.renew!("a", owner: "w", fence: 1, now: 106, ttl: 10)
    assert_raises(Fencepost::Stale) { @db.renew!("a", owner: "w", fence: 2, now: 106, ttl: 10) }
    assert_raises(Fencepost::Expired) { @db.renew!("a", owner: "w", fence: 1, now: 116, ttl: 10) }
  end

  def test_complete_answers_true_or_false
    @db.claim("a", owner: "w", now: 100, ttl: 10)
    assert_equal false, @db.complete("a", owner: "w", fence: 1, now: 110)
    assert_raises(Fencepost::Expired) { @db.complete!("a", owner: "w", fence: 1, now: 110) }
    assert_equal true, @db.complete!("a", owner: "w", fence: 1, now: 109)
    assert_nil @db.state("a").result
    assert_raises(Fencepost::Done) { @db.complete!("a", owner: "w", fence: 1, now: 109) }
  end

  def test_no_result_is_not_the_empty_result
    @db.claim("a", owner: "w", now: 100, ttl: 10)
    @db.complete("a", owner: "w", fence: 1, now: 101, result: "")
    assert_equal "", @db.state("a").result
  end

  def test_release_answers_true_or_false
    @db.claim("a", owner: "w", now: 100, ttl: 10)
    assert_equal false, @db.release("a", owner: "v", fence: 1)
    assert_raises(Fencepost::Stale) { @db.release!("a", owner: "v", fence: 1) }
    assert_equal true, @db.release("a", owner: "w", fence: 1)
    assert_equal 2, @db.claim("a", owner: "v", now: 100, ttl: 10)
    assert_equal true, @db.release!("a", owner: "v", fence: 2)
  end

  def test_claim_many_answers_in_the_owners_order
    owners = %w[u v w]
    fences = @db.claim_many("a", owners: owners, now: 100, ttl: 10)
    assert_equal [1], fences.compact
    assert_equal owners[fences.index(1)], @db.state("a").owner
    assert_equal [nil, nil], @db.claim_many("a", owners: %w[u v], now: 100, ttl: 10)
    assert_equal [2], @db.claim_many!("a", owners: %w[u], now: 110, ttl: 10)
    assert_raises(Fencepost::Held) { @db.claim_many!("a", owners: %w[u], now: 110, ttl: 10) }
    assert_raises(Fencepost::NotFound) { @db.claim_many!("none", owners: %w[u], now: 110, ttl: 10) }
    assert_equal [], @db.claim_many("a", owners: [], now: 110, ttl: 10)
    assert_equal [], @db.claim_many!("a", owners: [], now: 110, ttl: 10)
  end

  def test_claim_many_takes_thousands_of_owners
    owners = Array.new(3000) { |n| "owner #{n}" }
    fences = @db.claim_many("a", owners: owners, now: 100, ttl: 10)
    assert_equal 3000, fences.size
    assert_equal owners[fences.index(1)], @db.state("a").owner
  end

  def test_a_refusal_says_why_and_which_status_it_is
    refusal = assert_raises(Fencepost::Refused) { @db.renew!("a", owner: "w", fence: 1, now: 100, ttl: 10) }
    assert_instance_of Fencepost::Stale, refusal
    assert_kind_of Fencepost::Error, refusal
    assert_equal [5, 0], [refusal.status, refusal.sqlite_code]
    refute_empty refusal.message
    assert_equal Encoding::UTF_8, refusal.message.encoding
  end

  def test_a_busy_file_is_a_failure_and_no_refusal
    holder = lock
    hasty = Fencepost.open(path, busy_timeout: 0)
    @opened << hasty
    busy = assert_raises(Fencepost::Busy) { hasty.claim("a", owner: "w", now: 100, ttl: 10) }
    assert_kind_of Fencepost::Failure, busy
    refute_kind_of Fencepost::Refused, busy
    assert_equal [-2, 5], [busy.status, busy.sqlite_code & 0xff]
    unlock(holder)
    assert_equal 1, hasty.claim("a", owner: "w", now: 100, ttl: 10)
  end

  def test_an_exhausted_fence_is_a_failure
    sqlite("UPDATE jobs SET fence = 9223372036854775807")
    assert_raises(Fencepost::FenceExhausted) { @db.claim("a", owner: "w", now: 100, ttl: 10) }
    assert_equal (2**63) - 1, @db.state("a").fence
    sqlite("UPDATE jobs SET owner = 'w', until = 110")
    assert_equal true, @db.release("a", owner: "w", fence: (2**63) - 1)
  end

  def test_a_status_of_a_later_library_is_known_by_its_sign
    statuses = Fencepost.send(:const_get, :Status)
    detail = native::Detail.new
    assert_instance_of Fencepost::Refused, statuses.exception(99, detail)
    assert_instance_of Fencepost::Failure, statuses.exception(-99, detail)
  end

  def test_a_db_is_not_copied
    assert_raises(TypeError) { @db.dup }
    assert_raises(TypeError) { @db.clone }
    assert_raises(TypeError) { Marshal.dump(@db) }
  end

  def test_inspect_names_the_file
    assert_equal "#<Fencepost::DB #{path.inspect}>", @db.inspect
    @db.close
    assert_equal "#<Fencepost::DB #{path.inspect} closed>", @db.inspect
  end

  def test_now_is_the_systems_clock
    before = Time.now.to_f
    assert_includes (before - 1)..(before + PATIENCE), Fencepost.now
  end
end
