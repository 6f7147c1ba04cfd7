# frozen_string_literal: true

module Fencepost
  # An open file of jobs; {Fencepost.open} makes one.
  #
  # = Arguments
  #
  # Ids, owners and results are Strings, at most 16 MiB in UTF-8. Other encodings are transcoded; binary
  # strings that are not plain ASCII are refused, as nobody knows what they say. The empty string is valid.
  # `now` is a number of seconds by any clock that does not go back and that all callers of a file share, or a
  # Time; `ttl` is a number of seconds above 0. Both must be finite, and `now + ttl` above `now`.
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
  # Any number of threads may use one DB at once, and other threads run while a call waits. A call that has
  # begun is carried out: Timeout, Thread#raise and Thread#kill take effect after it. A DB works on in the
  # parent and in the child after a fork. In a `trap` handler Ruby forbids what a DB needs (ThreadError); let
  # the handler wake a thread. Not for Ractors.
  class DB
    # What another thread raises waits until the bookkeeping of a call is whole again.
    LATER = { Object => :never }.freeze
    private_constant :LATER

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
    # @param read_only [Boolean] for {#state} alone: what writes raises {ReadOnly}. The file must exist
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
      @mutex = Mutex.new
      @call_ended = ConditionVariable.new
      @callers = {}.compare_by_identity
      @closed = false
      @handle = Native::Handle.new
      # Only for a DB that nobody closed. Before the call, so that no exception after it can lose the handle.
      ObjectSpace.define_finalizer(self, @handle.closer)
      insist(answer { |detail| Native.fencepost_open(@path, options, @handle.slot, detail) })
    end

    # Ends the handle. Leases stay as they are. Waits for calls that other threads are in; later ones raise
    # {Closed}. Any number of times.
    #
    # @return [nil]
    def close
      @mutex.synchronize do
        @closed = true
        @call_ended.wait(@mutex) while others_in_call?
        @handle.close
      end
      nil
    end

    # @return [Boolean]
    def closed? = @closed

    # Makes the table "jobs" where it is missing, and checks its shape where it is not. Any number of times,
    # by any number of programs at once.
    #
    # @return [self]
    # @raise [SchemaError] when there is a table "jobs" of another shape; it is not changed
    # @raise [Closed, Failure]
    def init_db
      insist(call(:fencepost_init_db))
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
    def claim(id, owner:, now:, ttl:) = otherwise(nil, ask_claim(id, owner, now, ttl))

    # As {#claim}.
    #
    # @param (see #claim)
    # @return [Integer]
    # @raise [NotFound, Done, Held]
    # @raise (see #claim)
    def claim!(id, owner:, now:, ttl:) = insist(ask_claim(id, owner, now, ttl))

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

    # Stores the result and completes the job for ever, when owner and fence hold it and the lease is not
    # over. Owner, until and fence stay as they are.
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
      otherwise(nil, ask_claim_many(id, owners, now, ttl)) || Array.new(owners.to_ary.size)
    end

    # As {#claim_many}.
    #
    # @param (see #claim_many)
    # @return [Array<Integer, nil>] with exactly one fence, or empty when there are no owners
    # @raise [NotFound, Done, Held]
    # @raise (see #claim_many)
    def claim_many!(id, owners:, now:, ttl:) = insist(ask_claim_many(id, owners, now, ttl))

    # @return [String]
    def inspect = "#<#{self.class} #{path.inspect}#{' closed' if closed?}>"

    # A copy would share the handle and not know when it is closed.
    # @!visibility private
    def initialize_copy(_other)
      raise TypeError, "can't copy #{self.class}"
    end

    private

    # Each of these answers what its method does when all is well, or the {Refused} that its bang form raises.

    def ask_enqueue(id) = call(:fencepost_enqueue, Convert.text(id, "id"))

    def ask_state(id)
      slot = FFI::MemoryPointer.new(:pointer)
      call(:fencepost_state, Convert.text(id, "id"), slot) { job(Native::Row.new(slot.read_pointer)) }
    ensure
      Native.fencepost_job_free(slot.read_pointer) if slot
    end

    def ask_claim(id, owner, now, ttl)
      fence = FFI::MemoryPointer.new(:int64)
      call(:fencepost_claim, *names(id, owner), Convert.time(now, "now"), Convert.number(ttl, "ttl"),
           fence) { fence.read_int64 }
    end

    def ask_renew(id, owner, fence, now, ttl)
      call(:fencepost_renew, *names(id, owner), Convert.fence(fence), Convert.time(now, "now"),
           Convert.number(ttl, "ttl"))
    end

    def ask_complete(id, owner, fence, now, result)
      call(:fencepost_complete, *names(id, owner), Convert.fence(fence), Convert.time(now, "now"),
           result.nil? ? nil : Convert.text(result, "result"))
    end

    def ask_release(id, owner, fence)
      call(:fencepost_release, *names(id, owner), Convert.fence(fence))
    end

    def ask_claim_many(id, owners, now, ttl)
      id = Convert.text(id, "id")
      array, strings = Convert.texts(owners, "owners")
      fences = FFI::MemoryPointer.new(:int64, [strings.size, 1].max)
      call(:fencepost_claim_many, id, array, strings.size, Convert.time(now, "now"),
           Convert.number(ttl, "ttl"), fences) do
        fences.read_array_of_int64(strings.size).map { |fence| fence unless fence.zero? }
      end
    end

    def names(id, owner) = [Convert.text(id, "id"), Convert.text(owner, "owner")]

    def job(row)
      Job.new(id: row.text(:id), owner: row.text(:owner), until: row[:until], fence: row[:fence],
              result: row.text(:result), done: row[:done])
    end

    def otherwise(default, answer) = answer.is_a?(Refused) ? default : answer

    def insist(answer) = answer.is_a?(Refused) ? raise(answer) : answer

    # Calls the library; answers what the block makes of it (or true), or a Refused, or raises.
    def call(function, *arguments, &block)
      answer(block) do |detail|
        with_handle { |handle| Native.public_send(function, handle, *arguments, detail) }
      end
    end

    def answer(value = nil)
      detail = Native::Detail.new
      status = yield detail
      return value.nil? || value.call if status == Status::OK

      exception = Status.exception(status, detail)
      exception.is_a?(Refused) ? exception : raise(exception)
    end

    # Who is in a call is kept as threads and not as a number, because a fork leaves the other threads behind
    # in the parent: what they had begun is not waited for in the child, where they are dead.
    def with_handle
      Thread.handle_interrupt(LATER) do
        @mutex.synchronize do
          raise Closed, "the handle on #{path} is closed" if @closed

          @callers[Thread.current] = true
        end
        yield @handle.pointer
      ensure
        @mutex.synchronize { @call_ended.broadcast if @callers.delete(Thread.current) }
      end
    end

    # The thread that asks is in no call, whatever a signal's exception may have left behind.
    def others_in_call?
      @callers.each_key.any? { |thread| thread != Thread.current && thread.alive? }
    end
  end
end
