# frozen_string_literal: true

require_relative "helper"

# What Ruby does to copy, freeze, pack or move an object leaves a handle as it is, and owns nothing of it.
class CopiesTest < FencepostTest
  # More than the few that a conservative collector may keep.
  MANY = 50

  RACTOR = lambda do |object|
    ractor = Ractor.new(object) { :reached }
    value = ractor.respond_to?(:value) ? ractor.value : ractor.take
    "it was given to a Ractor: #{value}"
  end

  WAYS = {
    "dup" => :dup.to_proc,
    "clone" => :clone.to_proc,
    "clone, frozen" => ->(object) { object.clone(freeze: true) },
    "clone, not frozen" => ->(object) { object.clone(freeze: false) },
    "Object's own dup" => ->(object) { Kernel.instance_method(:dup).bind_call(object) },
    "freeze" => :freeze.to_proc,
    "Marshal" => ->(object) { Marshal.dump(object) },
    "a new Ractor" => RACTOR,
    "a new Ractor, in an Array" => ->(object) { RACTOR.call([object]) },
    "a Ractor's message" => ->(object) { Ractor.current.send(object) },
    "a Ractor's message, moved" => ->(object) { Ractor.current.send(object, move: true) },
    "make_shareable" => ->(object) { Ractor.make_shareable(object) },
    "make_shareable, a copy" => ->(object) { Ractor.make_shareable(object, copy: true) }
  }.freeze

  # Lets all others do what DB refuses.
  class Lenient < Fencepost::DB
    def initialize_copy(_other) = self
    def freeze = Kernel.instance_method(:freeze).bind_call(self)
  end

  def setup
    super
    @experimental = Warning[:experimental]
    Warning[:experimental] = false
    @db = open_db.init_db
  end

  def teardown
    Warning[:experimental] = @experimental
    super
  end

  # In a method of its own, so that no copy is left on the stack.
  def refused_many_times(object, way)
    MANY.times do
      way.call(object)
      flunk "a copy was made"
    rescue TypeError, Ractor::Error
      # as it should be
    end
  end

  def handle(database = @db) = database.instance_variable_get(:@handle)

  def collect_and_use(database = @db)
    GC.start
    refute_predicate database, :frozen?
    assert_equal true, database.enqueue("a")
    assert_nil database.close
    assert_raises(Fencepost::Closed) { database.enqueue("b") }
  end

  WAYS.each do |name, way|
    define_method("test_a_db_withstands_#{name}") do
      refused_many_times(@db, way)
      collect_and_use
    end

    define_method("test_what_is_in_a_db_withstands_#{name}") do
      refused_many_times(handle, way)
      refute_predicate handle, :frozen?
      collect_and_use
    end
  end

  # Some of them end well here, as a DB of its own class would not let them.
  WAYS.reject { |name, _| name.include?("moved") }.each do |name, way|
    define_method("test_a_copy_that_a_subclass_allows_is_the_same_handle_with_#{name}") do
      lenient = Lenient.new(path)
      @opened << lenient
      copies = copy_many_times(lenient, way)
      GC.start
      [lenient, *copies].each_with_index { |db, index| assert_equal true, db.enqueue("job #{index}") }
      lenient.close
      [lenient, *copies].each { |db| assert_raises(Fencepost::Closed) { db.enqueue("later") } }
    end
  end

  def copy_many_times(object, way)
    Array.new(MANY) do
      way.call(object)
    rescue TypeError, Ractor::Error
      nil
    end.grep(Lenient)
  end

  def test_a_copy_that_a_subclass_allows_outlives_its_original
    copy = Lenient.new(path).dup
    @opened << copy
    GC.start
    assert_equal true, copy.enqueue("a")
  end

  # The failed copy is collected while a thread waits in a call with the original.
  def test_a_call_that_waits_is_left_alone
    holder = lock
    call = Thread.new { @db.enqueue("a") }
    wait_until_asleep(call)
    refused_many_times(@db, WAYS["dup"])
    GC.start
    unlock(holder)
    assert_equal true, finish(call)
  end

  def test_jobs_and_grants_are_plain_values
    @db.enqueue("a")
    grant = @db.claim_next(owner: "w", now: 100, ttl: 10)
    [grant, @db.state("a"), @db.list(:held, now: 100, max: 1).first].each do |value|
      assert Ractor.shareable?(value)
      assert_equal [value] * 3, [value.dup, value.clone, Marshal.load(Marshal.dump(value))]
    end
  end
end
