# frozen_string_literal: true

# The third program of the story, in Ruby: puts jobs into the file, and reads how one stands.
#
#     ruby clerk.rb FILE enqueue JOB
#     ruby clerk.rb FILE read JOB

require "fencepost"

path, task, id = ARGV
Fencepost.open(path) do |db|
  case task
  when "enqueue"
    db.init_db
    db.enqueue(id)
    puts "OK"
  when "read"
    job = db.state(id) or abort "clerk: there is no job #{id}"
    done = job.done? ? "done" : "not done"
    puts "#{done}, by #{job.owner}, fence #{job.fence}, result #{job.result.inspect}"
  else
    abort "usage: clerk.rb FILE enqueue|read JOB"
  end
end
