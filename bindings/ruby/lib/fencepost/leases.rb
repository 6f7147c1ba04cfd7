# frozen_string_literal: true

module Fencepost
  # What a call is granted, until the caller has it: when an exception or the end of the thread comes in
  # between, it is given back.
  # @api private
  class Leases
    # Gives the block what it makes its call with; answers what the block does.
    #
    # Ruby looks for what other threads have raised wherever a method or a loop ends. So it is noted last that
    # the answer is handed over: only the ends of this method and of the one that calls it come after that.
    def self.handing_over(handle)
      leases = new(handle)
      handed_over = false
      begin
        answer = yield leases
        handed_over = true
        answer
      ensure
        leases.give_back_later unless handed_over
      end
    end

    def initialize(handle)
      @handle = handle
      @granted = []
    end

    # Gives the block the library's pointer for its call; `granted` reads from the library's memory what came
    # of that, as fencepost_release wants it. It is read however the call ends, as what a trap handler raises
    # cannot be made to wait.
    #
    # What another thread raised meanwhile comes at the end of handle_interrupt, where the handle is still in
    # use: a close that waits for this call would leave nothing to give back with.
    def take(granted)
      @handle.use do |pointer|
        taken = false
        answer = Thread.handle_interrupt(Handle::LATER) do
          yield pointer
        ensure
          @granted = granted.call
        end
        taken = true
        answer
      ensure
        give_back(pointer) unless taken
      end
    end

    def give_back_later
      @handle.use { |pointer| give_back(pointer) } unless @granted.empty?
    rescue Closed
      # They end when their ttl is over.
    end

    private

    # When one cannot be given back, the others are not tried, as each might wait as long: they end when their
    # ttl is over.
    def give_back(pointer)
      Thread.handle_interrupt(Handle::LATER) do
        while (lease = @granted.shift)
          @granted.clear if Native.fencepost_release(pointer, *lease, nil).negative?
        end
      end
    end
  end
  private_constant :Leases
end
