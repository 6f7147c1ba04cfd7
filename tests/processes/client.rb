# frozen_string_literal: true

# What client.c does, through the Ruby wrapper.

require "fencepost"

# The worker of client.c.
class Client
  def initialize(name)
    @name = name
  end

  def use(path)
    @db&.close
    tell("open", "-", 0) { @db = Fencepost.open(path) }
  end

  def race(path)
    use(path)
    tell("init_db", "-", 0) { @db.init_db }
    enqueue("job")
    claim_and_complete("job", 0)
  end

  def work(count, clock)
    count.times do |i|
      relay
      claim_and_complete("shared-#{i}", 0)
      claim_and_complete("taken-over-#{i}", clock)
      enqueue("own-#{@name}-#{i}")
      claim_and_complete("own-#{@name}-#{i}", 0)
    end
  end

  private

  def tell(operation, job, fence)
    value = yield
    fence = value if operation == "claim"
    puts "#{operation} #{job} #{fence} OK"
    value
  rescue Fencepost::Refused, Fencepost::Failure => e
    name = e.class.name.split("::").last.gsub(/(?<=[a-z])(?=[A-Z])/, "_").upcase
    puts "#{operation} #{job} #{fence} #{name}"
    nil
  end

  def enqueue(job) = tell("enqueue", job, 0) { @db.enqueue!(job) }

  def claim(job, now) = tell("claim", job, 0) { @db.claim!(job, owner: @name, now: now, ttl: 50) }

  def relay
    fence = claim("relay", 0) or return
    tell("renew", "relay", fence) { @db.renew!("relay", owner: @name, fence: fence, now: 0, ttl: 50) }
    tell("release", "relay", fence) { @db.release!("relay", owner: @name, fence: fence) }
  end

  def claim_and_complete(job, now)
    fence = claim(job, now) or return
    tell("complete", job, fence) do
      @db.complete!(job, owner: @name, fence: fence, now: now, result: "#{@name}:#{fence}")
    end
  end
end

client = Client.new(ARGV.fetch(0))
$stdin.each_line do |line|
  case line.split
  in ["open", path] then client.use(path)
  in ["race", path] then client.race(path)
  in ["work", count, clock] then client.work(Integer(count), Float(clock))
  end
  puts "."
  $stdout.flush
end
