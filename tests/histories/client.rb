# frozen_string_literal: true

# What client.c does, through the Ruby wrapper.

require "fencepost"

LEASES = 4
MANY = 3
WINDOW = 6
STRIDE = 16
BASE = 2000
HOUR = 3600
YEAR = 31_536_000

def nanoseconds = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)

# The clock of client.c.
class Clock
  def initialize(kind, epoch)
    @kind = kind
    @epoch = epoch
  end

  def at(call) = @kind == "zero" ? 0.0 : BASE + ((nanoseconds - @epoch) / 1_000_000 / 4.0) + shift(call)

  private

  def shift(call)
    case @kind
    when "ahead" then 20
    when "back" then (call / 16) % 4 == 3 ? -HOUR : 0
    when "year" then call % 32 == 31 ? YEAR : 0
    else 0
    end
  end
end

# Writes down calls and answers.
class Log
  def initialize(path)
    @file = File.open(path, File::WRONLY | File::CREAT | File::EXCL)
    @file.sync = true
  end

  # Answers what the block does, which makes the call; nil when that was refused or failed. `words` makes
  # of it what is written down.
  def call(*call, words: ->(_) { [] })
    @file.write("#{nanoseconds} #{call.map { |word| word.nil? ? 'null' : word }.join(' ')}")
    value = yield
    ended = nanoseconds
    @file.write(" => #{["#{ended} OK", *words.call(value)].join(' ')}\n")
    value
  rescue Fencepost::Refused, Fencepost::Failure => e
    @file.write(" => #{nanoseconds} #{status(e)}\n")
    nil
  end

  private

  def status(error)
    name = error.class.name.split("::").last.gsub(/(?<=[a-z])(?=[A-Z])/, "_").upcase
    { "IOERROR" => "IO", "SCHEMA_ERROR" => "SCHEMA", "INTERNAL_ERROR" => "INTERNAL" }.fetch(name, name)
  end
end

# The worker of client.c: one thread of it.
class Worker
  Lease = Struct.new(:job, :owner, :fence)

  # Grants as they are written down.
  WORDS = ->(grants) { grants.flat_map(&:to_a) }

  def initialize(database, owner, log, random, clock)
    @db = database
    @owner = owner
    @log = log
    @random = random
    @clock = clock
    @leases = []
  end

  def work(from, to, jobs)
    (from...to).each do |i|
      step(i, jobs * i / to)
      $stdout.write(".") if i % STRIDE == STRIDE - 1
    end
  end

  private

  def below(limit) = @random.rand(limit)

  def step(call, newest)
    job = "j#{[newest - below(WINDOW), 0].max}"
    @now = @clock.at(call)
    @ttl = 0.25 * (2**below(8))
    case below(100)
    when 0...10 then add(job, newest)
    when 10...24 then state(job)
    when 24...52 then claim(job)
    when 52...61 then claim_any
    else go_on(job, call)
    end
  end

  def add(job, newest)
    case below(10)
    when 0...5 then @log.call("enqueue", job) { @db.enqueue!(job) }
    when 5...9 then @log.call("enqueue_at", job, later) { @db.enqueue_at!(job, not_before: later) }
    else
      ids = Array.new(MANY) { |i| "j#{newest + i}" }
      @log.call("enqueue_many", *ids, words: :itself.to_proc) { @db.enqueue_many!(ids) }
    end
  end

  def later = @now + @ttl - 8

  def state(job)
    row = lambda do |found|
      [found.owner || "null", found.until, found.fence, found.result || "null", found.done]
    end
    @log.call("state", job, words: row) { @db.state!(job) }
  end

  def claim(job)
    fence = @log.call("claim", job, @owner, @now, @ttl, words: ->(given) { [given] }) do
      @db.claim!(job, owner: @owner, now: @now, ttl: @ttl)
    end
    keep(job, fence) if fence
  end

  def claim_any = below(3).zero? ? claim_batch : claim_next

  def claim_next
    grants = @log.call("claim_next", @owner, @now, @ttl, words: WORDS) do
      [@db.claim_next!(owner: @owner, now: @now, ttl: @ttl)]
    end
    keep_all(grants)
  end

  def claim_batch
    grants = @log.call("claim_batch", @owner, @now, @ttl, MANY, words: WORDS) do
      @db.claim_batch!(owner: @owner, now: @now, ttl: @ttl, max: MANY)
    end
    keep_all(grants)
  end

  def keep(job, fence)
    @leases.unshift(Lease.new(job, @owner, fence))
    @leases.pop if @leases.size > LEASES
  end

  def keep_all(grants)
    grants&.each { |grant| keep(grant.id, grant.fence) }
  end

  # Its newest lease, mostly; now and then under a wrong fence or a wrong name.
  def choose
    lease = (below(4).zero? ? @leases.sample(random: @random) : @leases.first).dup
    lease.owner = "stranger" if below(20).zero?
    lease.fence += { 0 => -1, 1 => 1 }.fetch(below(20), 0)
    lease
  end

  # Forgets its newest lease, but not always, so that it comes back to some that it has lost.
  def forget
    @leases.shift unless below(4).zero?
  end

  def go_on(job, call)
    return claim(job) if @leases.empty?

    lease = choose
    return renew(*lease) || forget if below(100) < 35

    forget
    # Every second job is never completed, so that its fence rises high.
    below(2).zero? && lease.job[1..].to_i.odd? ? finish(lease, call) : give_back(lease)
  end

  def finish(lease, call)
    result = "#{lease.owner}:#{lease.fence}:#{call}" unless below(8).zero?
    below(5) < 3 ? complete(*lease, result) : complete_and_claim_next(*lease, result)
  end

  def give_back(lease) = below(7) < 5 ? release(*lease) : release_at(*lease)

  def renew(job, owner, fence)
    @log.call("renew", job, owner, fence, @now, @ttl) do
      @db.renew!(job, owner: owner, fence: fence, now: @now, ttl: @ttl)
    end
  end

  def release(job, owner, fence)
    @log.call("release", job, owner, fence) { @db.release!(job, owner: owner, fence: fence) }
  end

  def release_at(job, owner, fence)
    @log.call("release_at", job, owner, fence, later) do
      @db.release_at!(job, owner: owner, fence: fence, not_before: later)
    end
  end

  def complete(job, owner, fence, result)
    @log.call("complete", job, owner, fence, @now, result) do
      @db.complete!(job, owner: owner, fence: fence, now: @now, result: result)
    end
  end

  def complete_and_claim_next(job, owner, fence, result)
    grants = @log.call("complete_and_claim_next", job, owner, fence, @now, result, @ttl, words: WORDS) do
      lease = { owner: owner, fence: fence }
      [@db.complete_and_claim_next!(job, **lease, now: @now, ttl: @ttl, result: result)].compact
    end
    keep_all(grants)
  end
end

def patiently
  yield
rescue Fencepost::Busy
  retry
end

name, path, log, *rest = ARGV
clock = rest.delete_at(5)
seed, threads, from, to, jobs, epoch, durability, flags, timeout = rest.map { |word| Integer(word) }
Thread.abort_on_exception = true
$stdout.sync = true
database = patiently do
  Fencepost.open(path, durability: %i[full normal].fetch(durability), keep_journal_mode: flags == 4,
                       busy_timeout: timeout / 1000.0)
end
patiently { database.init_db }
running = Array.new(threads) do |i|
  # Some share a name, and one that is started again has that of the one before.
  worker = Worker.new(database, "#{name}.#{i % 2}", Log.new("#{log}.#{i}"), Random.new((1000 * seed) + i),
                      Clock.new(clock, epoch))
  Thread.new { worker.work(from, to, jobs) }
end
running.each(&:join)
database.close
