# frozen_string_literal: true

# What a call costs in Ruby; see ../calls.c.

require "fencepost"

BATCHES = 201
CHEAP = 2000
CLAIMS = 50

def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

def microseconds(size, &block)
  times = Array.new(BATCHES) do
    begun = clock
    size.times(&block)
    (clock - begun) * 1e6 / size
  end
  times.sort[BATCHES / 2]
end

Fencepost.open(ARGV.fetch(0), durability: :normal) do |db|
  now = 1
  cheap = microseconds(CHEAP) { db.claim_many!("job-0000", owners: [], now: now, ttl: 1) }
  claim = microseconds(CLAIMS) do
    now += 1
    db.claim!("job-0000", owner: "worker", now: now, ttl: 0.5)
  end
  puts format("cheap_us=%<cheap>.3f claim_us=%<claim>.3f", cheap: cheap, claim: claim)
end
