# frozen_string_literal: true

# A worker that takes the jobs named on the command line:
#
#     ruby -Ilib example/worker.rb jobs.db report invoice
#
# Start it in several terminals at once: every job is done by one of them.

require "fencepost"

TTL = 30 # seconds

path, *ids = ARGV
abort "usage: worker.rb FILE JOB..." if ids.empty?
me = "#{Process.pid}@ruby"

Fencepost.open(path) do |db|
  db.init_db
  ids.each do |id|
    db.enqueue(id)
    fence = db.claim(id, owner: me, now: Fencepost.now, ttl: TTL)
    next puts("#{id}: #{db.state(id).done? ? 'done' : 'held'} by #{db.state(id).owner}") unless fence

    # The work. Work that may outlast the lease calls db.renew in between, and stops when it answers false.
    result = "#{id} by #{me}"

    if db.complete(id, owner: me, fence: fence, now: Fencepost.now, result: result)
      puts "#{id}: done with fence #{fence}"
    else
      puts "#{id}: took too long, so the result was refused"
    end
  end
end
