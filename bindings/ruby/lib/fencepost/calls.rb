# frozen_string_literal: true

module Fencepost
  # What a DB asks of the library: arguments as C takes them, and Ruby's objects of what comes back. Each
  # `ask_` answers what its method does when all is well, or the {Refused} that its bang form raises.
  # @api private
  module Calls
    private

    def ask_init_db = call(:fencepost_init_db)

    def ask_enqueue(id) = call(:fencepost_enqueue, Convert.text(id, "id"))

    def ask_enqueue_at(id, not_before)
      call(:fencepost_enqueue_at, Convert.text(id, "id"), Convert.time(not_before, "not_before"))
    end

    def ask_enqueue_many(ids)
      array, strings = Convert.texts(ids, "ids")
      added = FFI::MemoryPointer.new(:bool, [strings.size, 1].max)
      call(:fencepost_enqueue_many, array, strings.size, added) do
        added.read_array_of_uint8(strings.size).map(&:positive?)
      end
    end

    def ask_state(id)
      taking(Native::Row, :fencepost_job_free) do |slot, read|
        call(:fencepost_state, Convert.text(id, "id"), slot) { job(read.call) }
      end
    end

    # Gives the block a place for the library's pointer, and how to read what is there; frees that afterwards.
    def taking(struct, free)
      slot = FFI::MemoryPointer.new(:pointer)
      yield slot, -> { struct.new(slot.read_pointer) unless slot.read_pointer.null? }
    ensure
      Native.public_send(free, slot.read_pointer) if slot
    end

    def ask_claim(leases, id, owner, now, ttl)
      id, owner = names(id, owner)
      fence = FFI::MemoryPointer.new(:int64)
      granted = -> { fence.read_int64.zero? ? [] : [[id, owner, fence.read_int64]] }
      call_granting(leases, granted, :fencepost_claim, id, owner, Convert.time(now, "now"),
                    Convert.number(ttl, "ttl"), fence) { fence.read_int64 }
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

    def ask_release_at(id, owner, fence, not_before)
      call(:fencepost_release_at, *names(id, owner), Convert.fence(fence),
           Convert.time(not_before, "not_before"))
    end

    def ask_claim_next(leases, owner, now, ttl)
      owner = Convert.text(owner, "owner")
      ask_grants(leases, owner, ONE, :fencepost_claim_next, owner, Convert.time(now, "now"),
                 Convert.number(ttl, "ttl"), &:first)
    end

    def ask_claim_batch(leases, owner, now, ttl, max)
      owner = Convert.text(owner, "owner")
      ask_grants(leases, owner, MANY, :fencepost_claim_batch, owner, Convert.time(now, "now"),
                 Convert.number(ttl, "ttl"), Convert.max(max), &:itself)
    end

    def ask_complete_and_claim_next(leases, id, owner, fence, now, result, ttl)
      id, owner = names(id, owner)
      ask_grants(leases, owner, ONE, :fencepost_complete_and_claim_next, id, owner, Convert.fence(fence),
                 Convert.time(now, "now"), result.nil? ? nil : Convert.text(result, "result"),
                 Convert.number(ttl, "ttl"), &:first)
    end

    # What the functions that grant jobs answer, and how that is freed.
    ONE = [Native::Granted, :fencepost_grant_free].freeze
    MANY = [Native::AllGranted, :fencepost_grants_free].freeze
    private_constant :ONE, :MANY

    # Gives the block the grants that the library puts where the last argument of the function points.
    def ask_grants(leases, owner, answer, function, *arguments)
      taking(*answer) do |slot, read|
        granted = -> { read.call.to_a.map { |given| [given.text, owner, given[:fence]] } }
        call_granting(leases, granted, function, *arguments, slot) do
          yield(granted.call.map { |id, _, fence| Grant.new(id: id, fence: fence) })
        end
      end
    end

    def ask_force_release(id)
      fence = FFI::MemoryPointer.new(:int64)
      call(:fencepost_force_release, Convert.text(id, "id"), fence) { fence.read_int64 }
    end

    def ask_requeue(id) = call(:fencepost_requeue, Convert.text(id, "id"))

    def ask_purge(before, max)
      count = FFI::MemoryPointer.new(:uint64)
      before = before.nil? ? Float::INFINITY : Convert.time(before, "before")
      call(:fencepost_purge, before, Convert.max(max), count) { count.read_uint64 }
    end

    def ask_raise_floor(floor) = call(:fencepost_raise_floor, Convert.fence(floor))

    def ask_count(condition, now)
      count = FFI::MemoryPointer.new(:uint64)
      call(:fencepost_count, Convert.condition(condition), Convert.time(now, "now"), count) do
        count.read_uint64
      end
    end

    def ask_list(condition, now, max, after)
      after = Convert.text(after, "after") unless after.nil?
      taking(Native::Rows, :fencepost_jobs_free) do |slot, read|
        call(:fencepost_list, Convert.condition(condition), Convert.time(now, "now"), after,
             Convert.max(max), slot) do
          read.call.to_a.map { |row| job(row) }
        end
      end
    end

    def ask_claim_many(leases, id, owners, now, ttl)
      id = Convert.text(id, "id")
      array, strings = Convert.texts(owners, "owners")
      slot = FFI::MemoryPointer.new(:int64, [strings.size, 1].max)
      call_granting(leases, -> { won(id, strings, slot) }, :fencepost_claim_many, id, array, strings.size,
                    Convert.time(now, "now"), Convert.number(ttl, "ttl"), slot) { fences(slot, strings) }
    end

    def fences(slot, owners) = slot.read_array_of_int64(owners.size).map { |fence| fence unless fence.zero? }

    def won(id, owners, slot)
      owners.zip(fences(slot, owners)).filter_map { |owner, fence| [id, owner.read_string, fence] if fence }
    end

    def names(id, owner) = [Convert.text(id, "id"), Convert.text(owner, "owner")]

    def job(row)
      Job.new(id: row.text(:id), owner: row.text(:owner), until: row[:until], fence: row[:fence],
              result: row.text(:result), done: row[:done])
    end

    # Calls the library; answers what the block makes of it (or true), or a Refused, or raises.
    def call(function, *arguments, &read)
      @handle.use { |pointer| ask(pointer, function, *arguments, &read) }
    end

    # As #call, for what grants; see Leases#take.
    def call_granting(leases, granted, function, *arguments, &read)
      leases.take(granted) { |pointer| ask(pointer, function, *arguments, &read) }
    end

    def ask(pointer, function, *arguments)
      detail = FFI::MemoryPointer.new(Native::Detail)
      status = Thread.handle_interrupt(Handle::LATER) do
        Native.public_send(function, pointer, *arguments, detail)
      end
      return refused(status, detail) unless status == Status::OK

      block_given? ? yield : true
    end

    # The Refused of a status; raises when it is none.
    def refused(status, detail)
      exception = Status.exception(status, Native::Detail.new(detail))
      exception.is_a?(Refused) ? exception : raise(exception)
    end
  end
  private_constant :Calls
end
