# frozen_string_literal: true

module Fencepost
  # What stands for memory of the library's: not copied, and not frozen, as it has to note that it is closed.
  # @api private
  module Sole
    # @!visibility private
    def initialize_copy(_other) = raise(TypeError, "can't copy #{self.class}")

    # @!visibility private
    def freeze = raise(TypeError, "can't freeze #{self.class}")
  end
  private_constant :Sole

  # Holds what fencepost_open gives, knows who is in a call with it, and closes it once.
  #
  # An object of its own, and not a part of DB: whatever makes a copy of a DB has this one in common with it.
  # FFI::AutoPointer would not do: it forgets its pointer after the release, so an exception that another
  # thread raises in between (Timeout) makes it release twice, and so does the end of a copy of it.
  # @api private
  class Handle
    include Sole

    # For Thread.handle_interrupt: what another thread raises waits until a call of the library has ended, or
    # the bookkeeping is whole again.
    LATER = { Object => :never }.freeze

    # @return [FFI::MemoryPointer] where fencepost_open writes it
    attr_reader :slot

    # The mutex comes first: what copies or moves objects into a Ractor goes through them in this order, and
    # stops at it, with nothing changed.
    def initialize(path)
      @mutex = Mutex.new
      @call_ended = ConditionVariable.new
      @callers = {}.compare_by_identity
      @closed = false
      @path = path
      @slot = FFI::MemoryPointer.new(:pointer)
      # Only for one that nobody closed.
      ObjectSpace.define_finalizer(self, Handle.finalizer(object_id, @slot))
    end

    # Ruby gives a copy the finalizers of its original, before anything can refuse the copy.
    def self.finalizer(owner, slot) = proc { |id| free(slot) if id == owner }

    def self.free(slot)
      pointer = slot.read_pointer
      slot.write_pointer(nil)
      Native.fencepost_close(pointer) unless pointer.null?
    end

    def closed? = @closed

    # Waits for calls that other threads are in; later ones raise Closed.
    def close
      @mutex.synchronize do
        @closed = true
        @call_ended.wait(@mutex) while others_in_call?
        Handle.free(@slot)
      end
    end

    # Gives the block the library's pointer, which is not freed before the block has ended.
    #
    # Who is in a call is kept as threads and not as a number, because a fork leaves the other threads behind
    # in the parent: what they had begun is not waited for in the child, where they are dead.
    def use
      Thread.handle_interrupt(LATER) do
        @mutex.synchronize do
          raise Closed, "the handle on #{@path} is closed" if @closed

          @callers[Thread.current] = true
        end
      end
      yield @slot.read_pointer
    ensure
      Thread.handle_interrupt(LATER) do
        @mutex.synchronize { @call_ended.broadcast if @callers.delete(Thread.current) && @closed }
      end
    end

    private

    # The thread that asks is in no call, whatever a signal's exception may have left behind.
    def others_in_call?
      @callers.each_key.any? { |thread| thread != Thread.current && thread.alive? }
    end
  end
  private_constant :Handle
end
