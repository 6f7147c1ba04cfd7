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

  def test_a_repeated_completion_is_known_by_owner_and_fence
    @db.claim("a", owner: "w", now: 100, ttl: 10)
    @db.claim("a", owner: "w", now: 110, ttl: 10)
    assert_equal true, @db.complete("a", owner: "w", fence: 2, now: 111, result: "2")
    [1, 2].each do |fence|
      assert_raises(Fencepost::Done) { @db.complete!("a", owner: "w", fence: fence, now: 111, result: "3") }
    end
    assert_equal ["a", "w", 120.0, 2, "2", true], @db.state("a").to_a
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

  def test_inspect_names_the_file
    assert_equal "#<Fencepost::DB #{path.inspect}>", @db.inspect
    @db.close
    assert_equal "#<Fencepost::DB #{path.inspect} closed>", @db.inspect
  end

  def test_a_job_prints_as_a_struct_does
    job = @db.state("a")
    assert_equal '#<struct Fencepost::Job id="a", owner=nil, until=0.0, fence=0, result=nil, done=false>',
                 job.inspect
    assert_equal '#<struct Fencepost::Grant id="a", fence=1>',
                 @db.claim_next(owner: "w", now: 100, ttl: 10).inspect
  end

  # Characters of 3 bytes each, of which 33 fit.
  def test_long_texts_are_cut_wherever_they_are_printed
    id = "결" * 34
    @db.enqueue(id)
    shown = "#{('결' * 33).inspect}... (102 bytes)"
    [@db.state(id), Fencepost::Grant.new(id: id, fence: 0)].each do |value|
      [value.inspect, value.to_s, *capture_io { pp value, [value] }.first.lines].each do |text|
        assert_includes text, "id=#{shown}, "
        refute_includes text, id
      end
      assert_equal id, value.id
    end
    whole = "x" * 100
    assert_includes Fencepost::Grant.new(id: whole, fence: 0).inspect, "id=#{whole.inspect}, fence=0"
  end

  def test_a_result_is_cut_where_it_is_printed
    @db.claim("a", owner: "w", now: 100, ttl: 10)
    @db.complete("a", owner: "w", fence: 1, now: 100, result: "x" * 101)
    assert_includes @db.state("a").inspect, "result=#{('x' * 100).inspect}... (101 bytes), done=true>"
  end

  def test_now_is_the_systems_clock
    before = Time.now.to_f
    assert_includes (before - 1)..(before + PATIENCE), Fencepost.now
  end

  def test_a_workers_loop
    @db.enqueue_many(%w[b c])
    worked = []
    job = @db.claim_next(owner: "w", now: 100, ttl: 10)
    while job
      worked << job.id
      job = @db.complete_and_claim_next(job.id, owner: "w", fence: job.fence, now: 101, ttl: 10, result: "r")
    end
    assert_equal %w[a b c], worked
    assert_nil job
    assert_equal [3, "r"], [@db.count(:done, now: 101), @db.state("c").result]
  end

  def test_claim_next_answers_a_frozen_grant_or_nil
    grant = @db.claim_next(owner: "w", now: 100, ttl: 10)
    assert_equal Fencepost::Grant.new(id: "a", fence: 1), grant
    assert(grant.frozen? && grant.id.frozen?)
    assert_nil @db.claim_next(owner: "w", now: 100, ttl: 10)
    assert_raises(Fencepost::NotFound) { @db.claim_next!(owner: "w", now: 100, ttl: 10) }
    assert_equal 2, @db.claim_next!(owner: "w", now: Time.at(110), ttl: 10).fence
    assert_equal 120.0, @db.state("a").until
  end

  def test_claim_batch_answers_grants
    @db.enqueue_many(%w[b c])
    grants = @db.claim_batch(owner: "w", now: 100, ttl: 10, max: 2)
    assert_equal [["a", 1], ["b", 1]], grants.map(&:to_a)
    assert_equal 1, @db.claim_batch!(owner: "w", now: 100, ttl: 10, max: 2).size
    assert_equal [], @db.claim_batch(owner: "w", now: 100, ttl: 10, max: 2)
    assert_raises(Fencepost::NotFound) { @db.claim_batch!(owner: "w", now: 100, ttl: 10, max: 2) }
  end

  def test_complete_and_claim_next_tells_refused_from_nothing_to_do
    lease = { owner: "w", fence: @db.claim("a", owner: "w", now: 100, ttl: 10) }
    @db.enqueue("b")
    assert_equal false, @db.complete_and_claim_next("a", **lease, now: 110, ttl: 10)
    assert_raises(Fencepost::Expired) { @db.complete_and_claim_next!("a", **lease, now: 110, ttl: 10) }
    assert_equal ["b", 1], @db.complete_and_claim_next("a", **lease, now: 105, ttl: 10).to_a
    assert_nil @db.complete_and_claim_next!("b", **lease, now: 105, ttl: 10)
    assert_predicate @db.state("b"), :done?
  end

  def test_enqueue_many_answers_what_is_new
    assert_equal [true, false, true], @db.enqueue_many(%w[b a c])
    assert_equal [false, false], @db.enqueue_many(%w[b a])
    assert_raises(Fencepost::Exists) { @db.enqueue_many!(%w[b a]) }
    assert_equal [[], []], [@db.enqueue_many([]), @db.enqueue_many!([])]
  end

  def test_later
    assert_equal true, @db.enqueue_at("b", not_before: Time.at(150))
    assert_equal false, @db.enqueue_at("b", not_before: 1)
    assert_raises(Fencepost::Exists) { @db.enqueue_at!("b", not_before: 1) }
    assert_equal 150.0, @db.state("b").until
    fence = @db.claim("a", owner: "w", now: 100, ttl: 10)
    assert_equal true, @db.release_at("a", owner: "w", fence: fence, not_before: 200)
    assert_equal false, @db.release_at("a", owner: "w", fence: fence, not_before: 200)
    assert_raises(Fencepost::Stale) { @db.release_at!("a", owner: "w", fence: fence, not_before: 200) }
    assert_equal [nil, 200.0], [@db.state("a").owner, @db.state("a").until]
    assert_equal %w[a b], @db.list(:delayed, now: 100, max: 9).map(&:id)
  end

  def test_each_job_goes_through_all_pages
    @db.enqueue_many(["", *"b".."e"])
    ids = ["", *"a".."e"]
    # Parts of a page, whole ones, and one that is larger than what there is.
    [1, 2, 3, 4, 6, 7].each do |page|
      found = []
      assert_same @db, @db.each_job(:claimable, now: 1, page: page) { |job| found << job.id }
      assert_equal ids, found
      assert_equal ids, @db.each_job(:claimable, now: Time.at(1), page: page).map(&:id)
    end
    assert_empty @db.each_job(:held, now: 1).to_a
  end

  def test_each_job_reads_when_it_is_asked
    @db.enqueue("b")
    jobs = @db.each_job(:claimable, now: 100, page: 1)
    assert_equal "a", jobs.next.id
    @db.enqueue("c")
    assert_equal @db.state("b"), jobs.next
    assert_equal "c", jobs.next.id
    assert_raises(StopIteration) { jobs.next }
    assert_equal "a", @db.each_job(:claimable, now: 100).first.id
  end

  def test_each_job_lets_its_block_write
    @db.enqueue_many(%w[b c])
    @db.each_job(:claimable, now: 100, page: 1) { |job| @db.claim!(job.id, owner: "w", now: 100, ttl: 10) }
    assert_equal %w[a b c], @db.each_job(:held, now: 100, page: 2).map(&:id)
  end

  def test_each_job_passes_on_what_its_block_raises
    fail_so = ->(_job) { raise StopIteration }
    assert_raises(StopIteration) { @db.each_job(:claimable, now: 100, &fail_so) }
  end

  def test_each_job_goes_through_broken_rows_by_their_names
    @db.enqueue_many(%w[b c])
    sqlite("UPDATE jobs SET fence = -1 WHERE id <> 'b'; INSERT INTO jobs(id) VALUES (X'41')")
    names = @db.each_job(:broken, now: 100, page: 1).map(&:id)
    assert_equal %w[41 61 63], names.map { |name| sqlite("SELECT hex(id) FROM jobs WHERE #{name}") }.sort
  end

  def test_each_job_names_what_it_cannot_take
    error = assert_raises(RangeError) { @db.each_job(:held, now: 1, page: 0).to_a }
    assert_match(/\Apage must be/, error.message)
    assert_raises(ArgumentError) { @db.each_job(:lost, now: 1) { flunk } }
    jobs = @db.each_job(:claimable, now: 1, page: 1)
    jobs.next
    @db.close
    assert_raises(Fencepost::Closed) { jobs.next }
  end

  def test_list_answers_pages_of_jobs
    @db.enqueue_many(["", "b"])
    pages = [nil, "", "a", "b"].map { |after| @db.list(:claimable, now: 1, max: 1, after: after).map(&:id) }
    assert_equal [[""], ["a"], ["b"], []], pages
    @db.claim("a", owner: "w", now: 100, ttl: 10)
    assert_equal [@db.state("a")], @db.list(:held, now: Time.at(100), max: 9)
    assert_equal [2, 1, 0], %i[claimable held done].map { |condition| @db.count(condition, now: 100) }
  end
end
