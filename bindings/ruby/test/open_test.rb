# frozen_string_literal: true

require_relative "helper"
require "pathname"

# How a file is opened, and with what options.
class OpenTest < FencepostTest
  def test_the_block_gets_the_db_and_its_value_is_answered
    inside = nil
    answer = Fencepost.open(path) do |db|
      inside = db
      refute_predicate db, :closed?
      :answer
    end
    assert_equal :answer, answer
    assert_predicate inside, :closed?
  end

  def test_the_block_form_closes_when_the_block_raises_or_is_left
    dbs = []
    assert_raises(KeyError) { Fencepost.open(path) { |db| raise KeyError, (dbs << db).inspect } }
    catch(:out) { Fencepost.open(path) { |db| throw :out, dbs << db } }
    assert_equal [true, true], dbs.map(&:closed?)
  end

  def test_a_block_may_close_the_db_itself
    assert_nil Fencepost.open(path, &:close)
  end

  def test_a_path_may_be_a_pathname
    assert_equal path, open_db.path
    Fencepost.open(Pathname.new(path)) { |db| assert_equal path, db.path }
  end

  def test_a_path_is_taken_by_its_bytes
    name = "일감.db"
    Fencepost.open(path(name).b, &:init_db)
    assert_path_exists path(name)
    assert_raises(ArgumentError) { Fencepost.open(path("caf\xE9.db".b)) }
  end

  def test_existing_asks_for_a_file_that_is_there
    failure = assert_raises(Fencepost::CannotOpen) { Fencepost.open(path, existing: true) }
    assert_equal(-3, failure.status)
    refute_path_exists path
    open_db.init_db
    Fencepost.open(path, existing: true, &:init_db)
  end

  def test_read_only_reads
    open_db.init_db.enqueue("a")
    Fencepost.open(path, read_only: true) do |db|
      jobs = [db.state("a")]
      assert_equal [1, jobs], [db.count(:claimable, now: 1), db.list(:claimable, now: 1, max: 9)]
      assert_equal ["a", jobs], [jobs.first.id, db.each_job(:claimable, now: 1).to_a]
      assert_raises(Fencepost::ReadOnly) { db.enqueue("b") }
    end
  end

  def test_the_journal_mode_is_kept_when_asked
    sqlite("PRAGMA journal_mode = DELETE; CREATE TABLE other(x)")
    Fencepost.open(path, keep_journal_mode: true, &:init_db)
    assert_equal "delete", sqlite("PRAGMA journal_mode")
    Fencepost.open(path, &:init_db)
    assert_equal "wal", sqlite("PRAGMA journal_mode")
  end

  def test_durability_is_full_or_normal
    Fencepost.open(path, durability: :normal) { |db| assert_equal true, db.init_db.enqueue("a") }
    Fencepost.open(path, durability: :full) { |db| assert_equal false, db.enqueue("a") }
    [:off, "full", nil, 1].each do |wrong|
      assert_raises(ArgumentError) { Fencepost.open(path, durability: wrong) }
    end
  end

  def test_the_options_are_passed_on_as_the_header_numbers_them
    convert = Fencepost.send(:const_get, :Convert)
    options = convert.options(1.5, :normal, native::OPEN_EXISTING => true, native::OPEN_READ_ONLY => false,
                                            native::OPEN_ALLOW_NETWORK_FILESYSTEM => 1)
    assert_equal([native::Options.size, 1500, 1, 9], options.members.map { |member| options[member] })
  end

  def test_busy_timeout_is_in_seconds_and_0_is_no_wait
    convert = Fencepost.send(:const_get, :Convert)
    { nil => 0, 0 => -1, 0.0 => -1, 1e-9 => 1, Rational(1, 2) => 500, 5 => 5000,
      2_147_483 => 2_147_483_000 }.each do |seconds, milliseconds|
      assert_equal milliseconds, convert.busy_timeout_ms(seconds), seconds.inspect
    end
    [-1, Float::NAN, Float::INFINITY, 2_147_484].each do |wrong|
      assert_raises(ArgumentError) { Fencepost.open(path, busy_timeout: wrong) }
    end
    ["5", :five, Time.now].each do |wrong|
      assert_raises(TypeError) { Fencepost.open(path, busy_timeout: wrong) }
    end
  end

  def test_a_file_that_cannot_be_used_is_told_apart
    File.write(path("text"), "not a database " * 100)
    assert_raises(Fencepost::NotADatabase) { open_db("text") }
    sqlite("CREATE TABLE jobs(a, b)", "other")
    assert_raises(Fencepost::SchemaError) { open_db("other") }
    assert_raises(Fencepost::CannotOpen) { open_db("no/such/folder") }
    assert_raises(Fencepost::Unsupported) { Fencepost.open(":memory:") }
  end

  def test_without_a_table_calls_say_so
    assert_raises(Fencepost::SchemaError) { open_db.enqueue("a") }
  end

  def test_unknown_options_are_refused
    assert_raises(ArgumentError) { Fencepost.open(path, timeout: 5) }
  end
end
