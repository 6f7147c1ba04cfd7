# frozen_string_literal: true

module Fencepost
  # An open file of jobs; {Fencepost.open} makes one.
  #
  # = Arguments
  #
  # Ids, owners and results are Strings, at most 16 MiB in UTF-8. Other encodings are transcoded; binary
  # strings that are not plain ASCII are refused, as nobody knows what they say. The empty string is valid.
  # `now` is a number of seconds by any clock that does not go back and that all callers of a file share, or a
  # Time; `ttl` is a number of seconds above 0. Both must be finite, and `now + ttl` above `now`. The clock
  # should count from 0 upwards: a job that nobody holds and nobody has delayed can be claimed from 0 on, and
  # no sooner.
  #
  # = Answers
  #
  # A refusal by the lease's rules is an ordinary answer: nil or false, and nothing was changed. The same
  # method with a `!` raises the reason instead, a {Refused}. Everything else that goes wrong is an exception
  # in both forms:
  #
  # - TypeError for an argument of another type; ArgumentError for a string with a NUL in it or that is not
  #   valid in its encoding, and (as {InvalidArgument}) for a number out of range; RangeError for a fence that
  #   does not fit in 64 bits. The file was not touched.
  # - {Closed} after {#close}.
  # - a {Failure} when the file could not be used: {Busy}, {SchemaError}, {IOError}, {Full}, ...
  #
  # = Threads, forks, signals
  #
  # Any number of threads may use one DB at once, and other threads run while a call waits. A DB works on in
  # the parent and in the child after a fork. Not for Ractors, and neither copied nor frozen: that raises
  # TypeError (or what Ractor raises), and leaves the DB as it is.
  #
  # A call that has begun is carried out: Timeout, Thread#raise and Thread#kill take effect after it. So a
  # `Timeout.timeout(0.5)` ends a call that waits for the file's lock only when the lock was free or the busy
  # timeout is over. What was asked for may be stored then, and the exception does not say so: {#state} does.
  # `busy_timeout` (see {#initialize}) bounds the wait itself, and its {Busy} says that nothing was changed.
  #
  # A claim (each method that answers a fence or grants) whose answer they keep from the caller is released
  # first; of {#complete_and_claim_next} the completion stands. To release, a call may wait for the lock up to
  # one more busy timeout; of a batch that is so for each grant, until one cannot be released. What cannot be
  # released ends with its ttl: when the file cannot be used just then, or the process is killed.
  #
  # One moment is the caller's: Ruby may raise when a claim has returned and is not assigned yet. That is rare
  # and cannot be seen from inside the method. Where it matters, make what others raise wait:
  #
  #     job = nil
  #     begin
  #       Thread.handle_interrupt(Object => :never) { job = db.claim_next(owner: me, now: now, ttl: 30) }
  #       # ... work, and complete the job ...
  #     ensure
  #       db.release(job.id, owner: me, fence: job.fence) if job # false when it is complete
  #     end
  #
  # In a `trap` handler Ruby forbids what a DB needs (ThreadError); let the handler wake a thread. What a
  # handler raises (and Interrupt) ends a call of the main thread as above, but no handle_interrupt makes it
  # wait.
  class DB
    include Sole
    include Calls

    # @return [String] the path as it was given
    attr_reader :path

    # Opens a database file, making an empty one when it is missing. A file that has the table "jobs" is
    # switched to WAL; one that has not is left as it is until {#init_db}.
    #
    # @param path [String, #to_path] a file on a local disk; the bytes of the path must be UTF-8
    # @param busy_timeout [Numeric, nil] how long a call waits for the file's locks, in seconds, with a grain
    #   of a millisecond; nil: 5; 0: no wait
    # @param durability [:full, :normal] :full: every change is synced to the disk before the call answers.
    #   :normal: a power cut may undo the newest changes, and so hand out a fence a second time
    # @param existing [Boolean] raise {CannotOpen} when the file is missing
    # @param read_only [Boolean] for {#state}, {#count}, {#list} and {#each_job}: what writes raises
    #   {ReadOnly}. The file must exist
    # @param keep_journal_mode [Boolean] do not switch the file to WAL
    # @param allow_network_filesystem [Boolean] open the file although its filesystem is a network's
    # @raise [TypeError, ArgumentError] for such arguments
    # @raise [CannotOpen, NotADatabase, SchemaError, ReadOnly, Unsupported, Failure] when it cannot be opened
    def initialize(path, busy_timeout: nil, durability: :full, existing: false, read_only: false,
                   keep_journal_mode: false, allow_network_filesystem: false)
      @path = Convert.path(path).freeze
      options = Convert.options(busy_timeout, durability,
                                Native::OPEN_EXISTING => existing,
                                Native::OPEN_READ_ONLY => read_only,
                                Native::OPEN_KEEP_JOURNAL_MODE => keep_journal_mode,
                                Native::OPEN_ALLOW_NETWORK_FILESYSTEM => allow_network_filesystem)
      # Before the call, so that no exception after it can lose what it opens.
      @handle = Handle.new(@path)
      detail = FFI::MemoryPointer.new(Native::Detail)
      status = Native.fencepost_open(@path, options, @handle.slot, detail)
      insist(refused(status, detail)) unless status == Status::OK
    end

    # Ends the handle. Leases stay as they are. Waits for calls that other threads are in; later ones raise
    # {Closed}. Any number of times.
    #
    # @return [nil]
    def close
      @handle.close
      nil
    end

    # @return [Boolean]
    def closed? = @handle.closed?

    # Makes the table "jobs" where it is missing, and checks its shape where it is not. Any number of times,
    # by any number of programs at once.
    #
    # @return [self]
    # @raise [SchemaError] when there is a table "jobs" of another shape; it is not changed
    # @raise [Closed, Failure]
    def init_db
      insist(ask_init_db)
      self
    end

    # Adds a job: nobody's, claimable at once, with fence 0.
    #
    # @param id [String]
    # @return [Boolean] false when there is a job of this id, which is left as it is
    # @raise [TypeError, ArgumentError, Closed, Failure]
    def enqueue(id) = otherwise(false, ask_enqueue(id))

    # As {#enqueue}.
    #
    # @param (see #enqueue)
    # @return [true]
    # @raise [Exists]
    # @raise (see #enqueue)
    def enqueue!(id) = insist(ask_enqueue(id))

    # Adds a job as {#enqueue} does, not to be claimed before a time.
    #
    # @param id [String]
    # @param not_before [Numeric, Time] when it can be claimed
    # @return [Boolean] false when there is a job of this id, which is left as it is
    # @raise [TypeError, ArgumentError, Closed, Failure]
    def enqueue_at(id, not_before:) = otherwise(false, ask_enqueue_at(id, not_before))

    # As {#enqueue_at}.
    #
    # @param (see #enqueue_at)
    # @return [true]
    # @raise [Exists]
    # @raise (see #enqueue_at)
    def enqueue_at!(id, not_before:) = insist(ask_enqueue_at(id, not_before))

    # Adds many jobs at once: all that are missing, or none in case of an exception.
    #
    # @param ids [Array<String>]
    # @return [Array<Boolean>] in the ids' order, whether each was added
    # @raise (see #enqueue)
    def enqueue_many(ids) = otherwise(nil, ask_enqueue_many(ids)) || Array.new(ids.to_ary.size, false)

    # As {#enqueue_many}.
    #
    # @param (see #enqueue_many)
    # @return [Array<Boolean>] with a true in it, or empty when there are no ids
    # @raise [Exists] when all exist
    # @raise (see #enqueue_many)
    def enqueue_many!(ids) = insist(ask_enqueue_many(ids))

    # Reads a job as it is stored now, never from a cache.
    #
    # @param id [String]
    # @return [Job, nil] nil when there is none
    # @raise [TypeError, ArgumentError, Closed, Failure]
    def state(id) = otherwise(nil, ask_state(id))

    # As {#state}.
    #
    # @param (see #state)
    # @return [Job]
    # @raise [NotFound]
    # @raise (see #state)
    def state!(id) = insist(ask_state(id))

    # Takes the job for the owner until `now + ttl`, when it is not complete and no lease on it is running
    # (`until <= now`).
    #
    # @param id [String]
    # @param owner [String]
    # @param now [Numeric, Time]
    # @param ttl [Numeric] seconds
    # @return [Integer, nil] the new fence, one more than any before it; nil when it was refused
    # @raise [FenceExhausted] when the job's fence is the largest 64-bit number
    # @raise [TypeError, ArgumentError, Closed, Failure]
    def claim(id, owner:, now:, ttl:)
      Leases.handing_over(@handle) { |leases| otherwise(nil, ask_claim(leases, id, owner, now, ttl)) }
    end

    # As {#claim}.
    #
    # @param (see #claim)
    # @return [Integer]
    # @raise [NotFound, Done, Held]
    # @raise (see #claim)
    def claim!(id, owner:, now:, ttl:)
      Leases.handing_over(@handle) { |leases| insist(ask_claim(leases, id, owner, now, ttl)) }
    end

    # Makes the lease run until `now + ttl`, when owner and fence hold the job and the lease is not over.
    #
    # @param id [String]
    # @param owner [String]
    # @param fence [Integer] the one that the claim gave
    # @param now [Numeric, Time]
    # @param ttl [Numeric] seconds
    # @return [Boolean] false when it was refused: stop working on the job
    # @raise [TypeError, ArgumentError, RangeError, Closed, Failure]
    def renew(id, owner:, fence:, now:, ttl:) = otherwise(false, ask_renew(id, owner, fence, now, ttl))

    # As {#renew}.
    #
    # @param (see #renew)
    # @return [true]
    # @raise [NotFound, Done, Stale, Expired]
    # @raise (see #renew)
    def renew!(id, owner:, fence:, now:, ttl:) = insist(ask_renew(id, owner, fence, now, ttl))

    # Stores the result and completes the job, when owner and fence hold it and the lease is not over. Owner,
    # until and fence stay as they are.
    #
    # One that is repeated with the same owner and fence is refused as {Done}, like anybody else's. A worker
    # whose process or connection ended between the commit and the answer (or that was told {IOError}) asks
    # {#state}: the completion was its own when the job is done, and owner and fence are its own. The owner is
    # not enough: it may have held the job twice. A job that was requeued or purged since says nothing.
    #
    # @param id [String]
    # @param owner [String]
    # @param fence [Integer] the one that the claim gave
    # @param now [Numeric, Time]
    # @param result [String, nil] nil for none, which is not the empty string
    # @return [Boolean] false when it was refused: the result was not stored
    # @raise [TypeError, ArgumentError, RangeError, Closed, Failure]
    def complete(id, owner:, fence:, now:, result: nil)
      otherwise(false, ask_complete(id, owner, fence, now, result))
    end

    # As {#complete}.
    #
    # @param (see #complete)
    # @return [true]
    # @raise [NotFound, Done, Stale, Expired]
    # @raise (see #complete)
    def complete!(id, owner:, fence:, now:, result: nil) = insist(ask_complete(id, owner, fence, now, result))

    # Gives the job back, when owner and fence hold it, the lease over or not: anyone can claim it at once.
    # The fence stays, so the next claim's is higher.
    #
    # @param id [String]
    # @param owner [String]
    # @param fence [Integer] the one that the claim gave
    # @return [Boolean] false when it was refused
    # @raise [TypeError, ArgumentError, RangeError, Closed, Failure]
    def release(id, owner:, fence:) = otherwise(false, ask_release(id, owner, fence))

    # As {#release}.
    #
    # @param (see #release)
    # @return [true]
    # @raise [NotFound, Done, Stale]
    # @raise (see #release)
    def release!(id, owner:, fence:) = insist(ask_release(id, owner, fence))

    # Gives the job back as {#release} does, not to be claimed before a time: to try again later.
    #
    # @param id [String]
    # @param owner [String]
    # @param fence [Integer] the one that the claim gave
    # @param not_before [Numeric, Time] when it can be claimed again
    # @return [Boolean] false when it was refused
    # @raise [TypeError, ArgumentError, RangeError, Closed, Failure]
    def release_at(id, owner:, fence:, not_before:)
      otherwise(false, ask_release_at(id, owner, fence, not_before))
    end

    # As {#release_at}.
    #
    # @param (see #release_at)
    # @return [true]
    # @raise [NotFound, Done, Stale]
    # @raise (see #release_at)
    def release_at!(id, owner:, fence:, not_before:) = insist(ask_release_at(id, owner, fence, not_before))

    # Takes the claimable job that comes next: leases that ran out and delays that are over first, those first
    # that are over the longest; then the jobs that wait, in the order in which they were added or released.
    #
    # @param owner [String]
    # @param now [Numeric, Time]
    # @param ttl [Numeric] seconds
    # @return [Grant, nil] nil when nothing is claimable
    # @raise [TypeError, ArgumentError, Closed, Failure]
    def claim_next(owner:, now:, ttl:)
      Leases.handing_over(@handle) { |leases| otherwise(nil, ask_claim_next(leases, owner, now, ttl)) }
    end

    # As {#claim_next}.
    #
    # @param (see #claim_next)
    # @return [Grant]
    # @raise [NotFound] when nothing is claimable
    # @raise (see #claim_next)
    def claim_next!(owner:, now:, ttl:)
      Leases.handing_over(@handle) { |leases| insist(ask_claim_next(leases, owner, now, ttl)) }
    end

    # Takes up to `max` claimable jobs at once, those that come next; see {#claim_next}.
    #
    # @param owner [String]
    # @param now [Numeric, Time]
    # @param ttl [Numeric] seconds
    # @param max [Integer] at least 1
    # @return [Array<Grant>] empty when nothing is claimable
    # @raise [TypeError, ArgumentError, RangeError, Closed, Failure]
    def claim_batch(owner:, now:, ttl:, max:)
      Leases.handing_over(@handle) { |leases| otherwise([], ask_claim_batch(leases, owner, now, ttl, max)) }
    end

    # As {#claim_batch}.
    #
    # @param (see #claim_batch)
    # @return [Array<Grant>] with at least one
    # @raise [NotFound] when nothing is claimable
    # @raise (see #claim_batch)
    def claim_batch!(owner:, now:, ttl:, max:)
      Leases.handing_over(@handle) { |leases| insist(ask_claim_batch(leases, owner, now, ttl, max)) }
    end

    # Completes a job as {#complete} does and takes the next one as {#claim_next} does, with one sync to the
    # disk instead of two.
    #
    # @param id [String]
    # @param owner [String]
    # @param fence [Integer] the one that the claim gave
    # @param now [Numeric, Time]
    # @param ttl [Numeric] seconds, of the lease on the next job
    # @param result [String, nil]
    # @return [Grant, nil, false] nil when the job is complete and nothing is claimable; false when it was
    #   refused: nothing was stored or claimed
    # @raise [TypeError, ArgumentError, RangeError, Closed, Failure]
    def complete_and_claim_next(id, owner:, fence:, now:, ttl:, result: nil)
      Leases.handing_over(@handle) do |leases|
        otherwise(false, ask_complete_and_claim_next(leases, id, owner, fence, now, result, ttl))
      end
    end

    # As {#complete_and_claim_next}.
    #
    # @param (see #complete_and_claim_next)
    # @return [Grant, nil] nil when nothing is claimable
    # @raise [NotFound, Done, Stale, Expired]
    # @raise (see #complete_and_claim_next)
    def complete_and_claim_next!(id, owner:, fence:, now:, ttl:, result: nil)
      Leases.handing_over(@handle) do |leases|
        insist(ask_complete_and_claim_next(leases, id, owner, fence, now, result, ttl))
      end
    end

    # Ends the lease or delay that a job has, whoever holds it, and raises its fence: the one that held it is
    # stale. For operators, and for leases that were granted by a wrong clock.
    #
    # @param id [String]
    # @return [Integer, nil] the new fence, which is granted to nobody: whoever checks fences outside of the
    #   file can be told to refuse those below it; nil when it was refused
    # @raise [FenceExhausted] when the job's fence is the largest 64-bit number
    # @raise [TypeError, ArgumentError, Closed, Failure]
    def force_release(id) = otherwise(nil, ask_force_release(id))

    # As {#force_release}.
    #
    # @param (see #force_release)
    # @return [Integer]
    # @raise [NotFound, Done]
    # @raise (see #force_release)
    def force_release!(id) = insist(ask_force_release(id))

    # Puts a complete job back into the line, to be done again: nobody's, claimable at once, without its
    # result. The fence stays, so the next one is higher. For operators.
    #
    # @param id [String]
    # @return [Boolean] false when there is no such job, or it is not complete and left as it is
    # @raise [TypeError, ArgumentError, Closed, Failure]
    def requeue(id) = otherwise(false, ask_requeue(id))

    # As {#requeue}.
    #
    # @param (see #requeue)
    # @return [true]
    # @raise [NotFound, Exists]
    # @raise (see #requeue)
    def requeue!(id) = insist(ask_requeue(id))

    # Removes complete jobs. Their ids may be enqueued again: every fence from then on is above theirs. The
    # file is locked meanwhile, so remove many in several calls.
    #
    # @param max [Integer] how many at most; at least 1
    # @param before [Numeric, Time, nil] only those whose `until` is not after it; nil: all. (When a job was
    #   completed is not stored, but it was before its `until`.)
    # @return [Integer] how many were removed
    # @raise [TypeError, ArgumentError, RangeError, Closed, Failure]
    def purge(max:, before: nil) = insist(ask_purge(before, max))

    # From now on every fence that is granted in this file is above a number, and leases under fences up to it
    # are ended. For a backup that was restored, with the highest fence that was seen before.
    #
    # @param floor [Integer] at least 0, and below the largest 64-bit number
    # @return [self]
    # @raise [TypeError, ArgumentError, RangeError, Closed, Failure]
    def raise_floor(floor)
      insist(ask_raise_floor(floor))
      self
    end

    # How many jobs are in a condition. Counting those that are done or broken reads the whole table.
    #
    # @param condition [:claimable, :held, :delayed, :done, :broken] each row is in exactly one
    # @param now [Numeric, Time]
    # @return [Integer]
    # @raise [TypeError, ArgumentError, Closed, Failure]
    def count(condition, now:) = insist(ask_count(condition, now))

    # The jobs that are in a condition, in the order of their ids' bytes, a page at a time. Of a row that is
    # broken, id is not the row's id but a condition in SQL that finds the row, such as "id = 'a'", and
    # nothing else is told.
    #
    # @param condition [:claimable, :held, :delayed, :done, :broken]
    # @param now [Numeric, Time]
    # @param max [Integer] at least 1
    # @param after [String, nil] the last id of the page before; nil for the first page
    # @return [Array<Job>] with fewer than max only on the last page
    # @raise [TypeError, ArgumentError, RangeError, Closed, Failure]
    def list(condition, now:, max:, after: nil) = insist(ask_list(condition, now, max, after))

    # Goes through all jobs that are in a condition, as {#list} tells them and in its order. A page is read
    # when its first job is wanted, and the file is not locked in between: the block may change jobs.
    #
    # While the block or others write, no id comes twice, and a job that stays in the condition comes once.
    # One that comes into it or leaves it meanwhile may be missed. A job is as it was when its page was read:
    # to act on it, go by what {#claim} and its like answer.
    #
    # @param condition [:claimable, :held, :delayed, :done, :broken]
    # @param now [Numeric, Time] of all pages
    # @param page [Integer] how many jobs are read at once, and are in memory with their results; at least 1
    # @yieldparam job [Job]
    # @return [self, Enumerator<Job>] an Enumerator without a block; it raises when it reads
    # @raise [TypeError, ArgumentError, RangeError, Closed, Failure] in the middle, too
    def each_job(condition, now:, page: 100, &block)
      return to_enum(:each_job, condition, now: now, page: page) unless block

      max = Convert.max(page, "page")
      jobs = list(condition, now: now, max: max).each(&block)
      jobs = list(condition, now: now, max: max, after: jobs.last.id).each(&block) while jobs.size == max
      self
    end

    # Claims one job for many owners at the same time, a thread of the library's for each (up to 64 at once).
    #
    # @param id [String]
    # @param owners [Array<String>] the same one may stand there twice
    # @param now [Numeric, Time]
    # @param ttl [Numeric] seconds
    # @return [Array<Integer, nil>] in the owners' order: the fence of the one that was granted, nil for the
    #   others; all nil when the claim was refused
    # @raise (see #claim)
    def claim_many(id, owners:, now:, ttl:)
      Leases.handing_over(@handle) do |leases|
        otherwise(nil, ask_claim_many(leases, id, owners, now, ttl)) || Array.new(owners.to_ary.size)
      end
    end

    # As {#claim_many}.
    #
    # @param (see #claim_many)
    # @return [Array<Integer, nil>] with exactly one fence, or empty when there are no owners
    # @raise [NotFound, Done, Held]
    # @raise (see #claim_many)
    def claim_many!(id, owners:, now:, ttl:)
      Leases.handing_over(@handle) { |leases| insist(ask_claim_many(leases, id, owners, now, ttl)) }
    end

    # @return [String]
    def inspect = "#<#{self.class} #{path.inspect}#{' closed' if closed?}>"

    private

    def otherwise(default, answer) = answer.is_a?(Refused) ? default : answer

    def insist(answer) = answer.is_a?(Refused) ? raise(answer) : answer
  end
end
