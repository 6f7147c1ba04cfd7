# frozen_string_literal: true

require_relative "fencepost/version"
require_relative "fencepost/errors"
require_relative "fencepost/native"
require_relative "fencepost/handle"
require_relative "fencepost/leases"
require_relative "fencepost/job"
require_relative "fencepost/convert"
require_relative "fencepost/calls"
require_relative "fencepost/db"

# Ownership leases with rising fencing tokens in one SQLite file.
#
# A worker claims a job for a time and is given a *fence*, a number that rises with every claim. What it
# writes later is stored only if its name and fence are still the job's, in the same transaction that checks
# them: a worker that stalled past its lease is told so, and the result of the one that took over stands.
#
#     Fencepost.open("jobs.db") do |db|
#       db.init_db
#       db.enqueue("report")
#       fence = db.claim("report", owner: "worker-1", now: Fencepost.now, ttl: 30)
#       db.complete("report", owner: "worker-1", fence: fence, now: Fencepost.now, result: "42 pages")
#     end
#
# Requiring it raises ::LoadError when `libfencepost.so.0` is not found, or when its MAJOR.MINOR is not the
# gem's.
module Fencepost
  # Opens a database file, making an empty one when it is missing.
  #
  # @overload open(path, busy_timeout: nil, durability: :full, existing: false, read_only: false,
  #     keep_journal_mode: false, allow_network_filesystem: false)
  #   Takes what {DB#initialize} takes.
  #   @return [DB] without a block
  #   @yieldparam db [DB] closed when the block ends, however it ends
  #   @yieldreturn [Object] becomes what open returns
  #   @raise (see DB#initialize)
  def self.open(path, **options)
    db = DB.new(path, **options)
    return db unless block_given?

    begin
      yield db
    ensure
      db.close
    end
  end

  # The system's clock, for callers with none of their own. It may be set back while the program runs; that
  # can end a lease early or late, and never lets a stale write in.
  #
  # @return [Float] seconds since 1970-01-01 00:00 UTC
  def self.now = Native.fencepost_now

  # @return [String] the version of the library that is loaded, "MAJOR.MINOR.PATCH"
  def self.library_version = Native.fencepost_version
end
