# frozen_string_literal: true

require_relative "helper"

# What is refused before the call, and what is made fit for it.
class ArgumentsTest < FencepostTest
  LEASE = { owner: "w", fence: 1 }.freeze
  # Each call, with one text argument left open.
  TEXTS = {
    "enqueue id" => ->(db, text) { db.enqueue(text) },
    "state id" => ->(db, text) { db.state(text) },
    "claim id" => ->(db, text) { db.claim(text, owner: "w", now: 105, ttl: 10) },
    "claim owner" => ->(db, text) { db.claim("a", owner: text, now: 105, ttl: 10) },
    "renew id" => ->(db, text) { db.renew(text, **LEASE, now: 105, ttl: 10) },
    "renew owner" => ->(db, text) { db.renew("a", owner: text, fence: 1, now: 105, ttl: 10) },
    "complete id" => ->(db, text) { db.complete(text, **LEASE, now: 105) },
    "complete owner" => ->(db, text) { db.complete("a", owner: text, fence: 1, now: 105) },
    "complete result" => ->(db, text) { db.complete("a", **LEASE, now: 105, result: text) },
    "release id" => ->(db, text) { db.release(text, **LEASE) },
    "release owner" => ->(db, text) { db.release("a", owner: text, fence: 1) },
    "enqueue_at id" => ->(db, text) { db.enqueue_at(text, not_before: 1) },
    "enqueue_many id" => ->(db, text) { db.enqueue_many(["b", text]) },
    "release_at id" => ->(db, text) { db.release_at(text, **LEASE, not_before: 1) },
    "release_at owner" => ->(db, text) { db.release_at("a", owner: text, fence: 1, not_before: 1) },
    "claim_next owner" => ->(db, text) { db.claim_next(owner: text, now: 200, ttl: 1) },
    "claim_batch owner" => ->(db, text) { db.claim_batch(owner: text, now: 200, ttl: 1, max: 1) },
    "complete_and_claim_next id" => lambda { |db, text|
                                      db.complete_and_claim_next(text, **LEASE, now: 105, ttl: 1)
                                    },
    "complete_and_claim_next owner" =>
      ->(db, text) { db.complete_and_claim_next("a", owner: text, fence: 1, now: 105, ttl: 1) },
    "complete_and_claim_next result" =>
      ->(db, text) { db.complete_and_claim_next("a", **LEASE, now: 105, ttl: 1, result: text) },
    "claim_many id" => ->(db, text) { db.claim_many(text, owners: ["w"], now: 105, ttl: 10) },
    "claim_many owner" => ->(db, text) { db.claim_many("a", owners: ["w", text], now: 105, ttl: 10) }
  }.freeze
  NUMBERS = {
    "claim now" => ->(db, number) { db.claim("a", owner: "w", now: number, ttl: 10) },
    "claim ttl" => ->(db, number) { db.claim("a", owner: "w", now: 105, ttl: number) },
    "renew now" => ->(db, number) { db.renew("a", **LEASE, now: number, ttl: 10) },
    "renew ttl" => ->(db, number) { db.renew("a", **LEASE, now: 105, ttl: number) },
    "complete now" => ->(db, number) { db.complete("a", **LEASE, now: number) },
    "enqueue_at not_before" => ->(db, number) { db.enqueue_at("b", not_before: number) },
    "release_at not_before" => ->(db, number) { db.release_at("a", **LEASE, not_before: number) },
    "claim_next now" => ->(db, number) { db.claim_next(owner: "w", now: number, ttl: 10) },
    "claim_next ttl" => ->(db, number) { db.claim_next(owner: "w", now: 200, ttl: number) },
    "claim_batch now" => ->(db, number) { db.claim_batch(owner: "w", now: number, ttl: 10, max: 1) },
    "claim_batch ttl" => ->(db, number) { db.claim_batch(owner: "w", now: 200, ttl: number, max: 1) },
    "complete_and_claim_next now" => lambda { |db, number|
                                       db.complete_and_claim_next("a", **LEASE, now: number, ttl: 1)
                                     },
    "complete_and_claim_next ttl" => lambda { |db, number|
                                       db.complete_and_claim_next("a", **LEASE, now: 105, ttl: number)
                                     },
    "count now" => ->(db, number) { db.count(:held, now: number) },
    "list now" => ->(db, number) { db.list(:held, now: number, max: 1) },
    "claim_many now" => ->(db, number) { db.claim_many("a", owners: ["w"], now: number, ttl: 10) },
    "claim_many ttl" => ->(db, number) { db.claim_many("a", owners: ["w"], now: 105, ttl: number) }
  }.freeze
  FENCES = {
    "renew" => ->(db, fence) { db.renew("a", owner: "w", fence: fence, now: 105, ttl: 10) },
    "complete" => ->(db, fence) { db.complete("a", owner: "w", fence: fence, now: 105) },
    "release" => ->(db, fence) { db.release("a", owner: "w", fence: fence) },
    "release_at" => ->(db, fence) { db.release_at("a", owner: "w", fence: fence, not_before: 1) },
    "complete_and_claim_next" =>
      ->(db, fence) { db.complete_and_claim_next("a", owner: "w", fence: fence, now: 105, ttl: 1) }
  }.freeze

  def setup
    super
    @db = open_db.init_db
    @db.enqueue("a")
    @db.claim("a", owner: "w", now: 100, ttl: 10)
  end

  # Asserts that each call refuses each value with the exception and changes nothing.
  def assert_refused(calls, exception, *values)
    before = sqlite("SELECT * FROM jobs")
    calls.to_a.product(values) do |(name, call), value|
      error = assert_raises(exception, "#{name} #{value.inspect}") { call[@db, value] }
      refute_empty error.message
      yield name, error if block_given?
    end
    assert_equal before, sqlite("SELECT * FROM jobs")
  end

  def test_what_is_no_string_is_a_type_error
    assert_refused(TEXTS.reject { |name,| name.end_with?("result") }, TypeError, nil)
    assert_refused(TEXTS, TypeError, :a, 1, ["a"], Object.new) do |name, error|
      assert_includes error.message, name.split.last
    end
  end

  def test_a_nul_inside_is_an_argument_error
    assert_refused(TEXTS, ArgumentError, "a\0", "\0", "a\0b") do |name, error|
      assert_match(/#{name.split.last}.* NUL/, error.message)
    end
    assert_raises(ArgumentError) { Fencepost.open("#{path}\0") }
  end

  def test_what_cannot_be_utf8_is_an_argument_error
    assert_refused(TEXTS, ArgumentError, "\xff", "caf\xC3", "\xED\xA0\x80", "\xff".b, "한국".b,
                   "\xff".dup.force_encoding("US-ASCII"), "\xff".dup.force_encoding("EUC-KR"),
                   "+AGE-".dup.force_encoding("UTF-7")) do |name, error|
      assert_match(/#{name.split.last}.* UTF-8/, error.message)
    end
  end

  def test_other_encodings_are_transcoded
    %w[EUC-KR UTF-16LE UTF-16 UTF-8].each do |encoding|
      @db.enqueue("한국 #{encoding}".encode(encoding))
      assert_equal "한국 #{encoding}", @db.state("한국 #{encoding}".encode(encoding)).id
    end
    result = "caf\xE9".dup.force_encoding("CP1252")
    @db.complete("a", owner: "w".encode("UTF-32BE"), fence: 1, now: 101, result: result)
    assert_equal "café", @db.state("a").result
    assert_equal "café", sqlite("SELECT result FROM jobs WHERE id = 'a'").force_encoding("UTF-8")
  end

  def test_plain_ascii_may_be_binary
    assert_equal false, @db.enqueue("a".b)
    assert_equal false, @db.enqueue("a".dup.force_encoding("US-ASCII"))
  end

  def test_answers_are_utf8
    @db.enqueue("한국".encode("EUC-KR"))
    fence = @db.claim("한국", owner: "주인", now: 100, ttl: 10)
    @db.complete("한국", owner: "주인", fence: fence, now: 100, result: "결과")
    job = @db.state("한국")
    assert_equal %w[한국 주인 결과], [job.id, job.owner, job.result]
    assert_equal [Encoding::UTF_8] * 3, [job.id, job.owner, job.result].map(&:encoding)
  end

  def test_an_argument_is_left_as_it_was
    id = "new".encode("UTF-16LE").freeze
    @db.enqueue(id)
    assert_equal Encoding::UTF_16LE, id.encoding
  end

  def test_what_converts_itself_to_a_string_or_array_will_do
    text = Struct.new(:to_str).new("b")
    owners = Struct.new(:to_ary).new(["w"])
    assert_equal true, @db.enqueue(text)
    assert_equal [1], @db.claim_many(text, owners: owners, now: 100, ttl: 10)
    assert_equal [nil], @db.claim_many(text, owners: owners, now: 100, ttl: 10)
  end

  def test_owners_must_be_an_array
    [nil, "w", 1, { "w" => 1 }].each do |wrong|
      assert_raises(TypeError) { @db.claim_many("a", owners: wrong, now: 110, ttl: 10) }
    end
  end

  def test_text_may_have_16_mib_and_no_more
    longest = "x" * (16 * 1024 * 1024)
    assert_equal true, @db.enqueue(longest)
    assert_equal longest, @db.state(longest).id
    assert_refused(TEXTS, Fencepost::InvalidArgument, "#{longest}x")
  end

  def test_what_is_no_number_is_a_type_error
    assert_refused(NUMBERS, TypeError, nil, "1", :now, [1], Complex(1, 1), Object.new)
    assert_refused(NUMBERS.select { |name,| name.end_with?("ttl") }, TypeError, Time.now)
  end

  def test_a_number_out_of_range_is_an_argument_error_with_a_status
    infinite = [Float::NAN, Float::INFINITY, -Float::INFINITY]
    assert_refused(NUMBERS, Fencepost::InvalidArgument, *infinite) do |_, error|
      assert_kind_of ArgumentError, error
      assert_equal(-1, error.status)
    end
    assert_refused(NUMBERS.select { |name,| name.end_with?("ttl") }, ArgumentError, 0, -1, -0.0, 1e-300)
  end

  def test_now_may_be_any_real_number_or_a_time
    [101, 101.5, Rational(203, 2), Time.at(101, 500, :millisecond)].each do |now|
      assert_equal true, @db.renew("a", **LEASE, now: now, ttl: Rational(5, 2)), now.inspect
      assert_equal now.to_f + 2.5, @db.state("a").until
    end
  end

  def test_what_is_no_integer_is_no_fence
    assert_refused(FENCES, TypeError, nil, 1.0, "1", Rational(1))
  end

  def test_a_fence_beyond_64_bits_is_a_range_error
    assert_refused(FENCES, RangeError, 2**63, (-(2**63)) - 1, 2**64)
    [2**62, (2**63) - 1, -(2**63), 0, -1].each do |stale|
      FENCES.each_value { |call| assert_equal false, call[@db, stale] }
    end
  end

  def test_a_missing_keyword_is_an_argument_error
    assert_raises(ArgumentError) { @db.claim("a", owner: "w", now: 1) }
    assert_raises(ArgumentError) { @db.release("a", owner: "w") }
  end

  # C reads a copy: the caller's own string may change under the call.
  def test_a_string_may_be_changed_by_another_thread_during_the_call
    line = "long enough to lie on the heap, where it can be changed in place"
    id = line * 10
    before = line * 10
    holder = lock
    call = Thread.new { @db.enqueue(id) }
    wait_until_asleep(call)
    id[0, 4] = "XXXX"
    unlock(holder)
    assert_equal true, finish(call)
    assert_equal before, @db.state(before).id
  end

  def test_a_condition_is_one_of_five_and_a_page_has_room
    ["held", nil, :running, 2].each do |condition|
      assert_raises(ArgumentError) { @db.count(condition, now: 1) }
      assert_raises(ArgumentError) { @db.list(condition, now: 1, max: 1) }
    end
    [0, -1, 2**63].each do |max|
      assert_raises(RangeError) { @db.list(:held, now: 1, max: max) }
      assert_raises(RangeError) { @db.claim_batch(owner: "w", now: 200, ttl: 1, max: max) }
    end
    [nil, 1.5, "1"].each { |max| assert_raises(TypeError) { @db.list(:held, now: 1, max: max) } }
    assert_raises(TypeError) { @db.list(:held, now: 1, max: 1, after: 1) }
    assert_raises(TypeError) { @db.enqueue_many("a") }
    assert_equal "1", sqlite("SELECT fence FROM jobs").strip
  end
end
