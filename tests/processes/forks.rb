# frozen_string_literal: true

# Forks of a Ruby program with threads: `forks.rb PATH LOG COUNT` does what forks.c calls "rounds".

require "fencepost"

# One program and its children.
class Forks
  THREADS = 2

  def initialize(path, log)
    @db = Fencepost.open(path, durability: :normal)
    @log = File.open(log, File::WRONLY | File::APPEND | File::CREAT)
    @log.sync = true
  end

  def run(count)
    @db.init_db
    %w[relay shared-0].each { |job| @db.enqueue!(job) }
    work("before", "shared-0", 0)
    @descriptors = count_descriptors
    stopped = false
    threads = Array.new(THREADS) do |n|
      Thread.new { (0..).each { |i| stopped ? break : work("thread#{n}", "shared-0", i) } }
    end
    1.upto(count) { |i| round(i) }
    stopped = true
    threads.each(&:join)
    check_descriptors
    @db.close
  end

  private

  def round(number)
    shared = "shared-#{number}"
    @db.enqueue!(shared)
    child = in_child do
      work("child", shared, number)
      grandchild(shared, number) if (number % 10).zero?
      check_descriptors
      @db.close if number.even?
    end
    work("parent", shared, number)
    wait(child)
  end

  def grandchild(shared, number)
    child = in_child { work("grandchild", shared, number) }
    work("again", shared, number)
    wait(child)
  end

  # Without at_exit and finalizers, as a server's worker would not have them run twice either.
  def in_child
    fork do
      yield
      exit!(0)
    rescue Exception => e # rubocop:disable Lint/RescueException
      warn e.full_message
      exit!(1)
    end
  end

  def wait(child)
    Process.wait(child)
    raise "a child ended: #{Process.last_status.inspect}" unless Process.last_status.success?
  end

  def count_descriptors = Dir.children("/proc/self/fd").size

  def check_descriptors
    # A checkpoint has a connection of its own, and a reader that must sync has the log open.
    raise "#{count_descriptors} descriptors after #{@descriptors}" if count_descriptors > @descriptors + 4
  end

  def tell(operation, job, fence, status) = @log.write("#{operation} #{job} #{fence} #{status}\n")

  def claim(job, owner)
    @db.claim!(job, owner: owner, now: 0, ttl: 10).tap { |fence| tell("claim", job, fence, "OK") }
  rescue Fencepost::Held, Fencepost::Done => e
    tell("claim", job, 0, e.class.name.split("::").last.upcase)
    nil
  end

  def claim_and_complete(job, owner)
    fence = claim(job, owner) or return
    @db.complete!(job, owner: owner, fence: fence, now: 0, result: "#{owner}:#{fence}")
    tell("complete", job, fence, "OK")
  end

  def work(owner, shared, number)
    own = "own-#{owner}-#{number}"
    @db.enqueue!(own)
    claim_and_complete(own, owner)
    raise "#{own} is not done" unless @db.state!(own).done?

    claim_and_complete(shared, owner)
    fence = claim("relay", owner)
    @db.release!("relay", owner: owner, fence: fence) if fence
  end
end

path, log, count = ARGV
Forks.new(path, log).run(Integer(count))
