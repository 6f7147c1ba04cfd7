# frozen_string_literal: true

require_relative "helper"

# One handle, used by a parent and its children.
class ForkTest < FencepostTest
  ROUNDS = 30

  def setup
    super
    @db = open_db.init_db
    @db.enqueue("a")
  end

  def claim(id = "a", owner: "w", now: 100) = @db.claim(id, owner: owner, now: now, ttl: 10)

  def test_a_child_works_on_with_the_handle_of_its_parent
    assert_equal [1, "child"], in_child { [claim(owner: "child"), @db.state("a").owner] }
    assert_equal "child", @db.state("a").owner
    assert_nil claim
    assert_equal 2, claim(now: 110)
  end

  def test_a_grandchild_does_as_well
    assert_equal([1, 2, 3], [claim, *in_child { [claim(now: 110), in_child { claim(now: 120) }] }])
  end

  def test_a_child_closes_its_handle_and_its_parents_stays_open
    closed = in_child do
      @db.close
      @db.closed? && begin
        claim
      rescue Fencepost::Closed => e
        e.class.name
      end
    end
    assert_equal "Fencepost::Closed", closed
    assert_equal 1, claim
  end

  def test_a_child_that_ends_as_children_do_leaves_the_parents_handle_alone
    pid = fork { exit!(false) unless claim == 1 }
    # `exit` runs the finalizers, and minitest's at_exit, which has nothing to run in a child.
    assert_predicate Process.wait2(pid).last, :success?
    assert_equal 2, claim(now: 110)
  end

  # Threads are in calls, in between, and in the handle's own bookkeeping when the fork comes.
  def test_forks_beside_busy_threads
    stop = false
    threads = Array.new(4) do |n|
      @db.enqueue("thread #{n}")
      Thread.new { busy(n) until stop }
    end
    ROUNDS.times do |round|
      @db.enqueue("job #{round}")
      child = start_child { work_in_child("job #{round}") }
      mine = claim("job #{round}", owner: "parent")
      assert_equal [1], [mine, child_answer(*child)].compact
    end
    stop = true
    threads.each { |thread| finish(thread) }
  end

  def busy(thread)
    @db.release("thread #{thread}", owner: "w", fence: claim("thread #{thread}"))
    @db.state("thread #{thread}")
  end

  def work_in_child(id)
    fence = claim(id, owner: "child")
    raise "no row" unless @db.state(id).fence == 1

    # Threads of the child's own may use it, too, and closing waits for no thread that is only in the parent.
    raise "no answer" unless Thread.new { @db.state(id) }.value

    @db.close
    fence
  end

  def test_closing_in_a_child_does_not_wait_for_calls_that_only_the_parent_is_in
    holder = lock
    call = Thread.new { claim }
    wait_until_asleep(call)
    assert_equal [false, true], in_child { [call.alive?, @db.close.nil?] }
    unlock(holder)
    assert_equal 1, finish(call)
  end

  def test_a_handle_opened_in_a_child_is_like_any_other
    assert_equal 1, in_child { Fencepost.open(path) { |db| db.claim("a", owner: "w", now: 100, ttl: 10) } }
    assert_nil claim
  end
end
