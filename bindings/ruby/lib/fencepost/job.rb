# frozen_string_literal: true

module Fencepost
  # How a struct prints whose texts may be 16 MiB long: as a Struct does, with long ones cut.
  # @api private
  module Brief
    LONGEST = 100
    private_constant :LONGEST

    # @return [String] for people: of a text of more than 100 bytes the beginning, and how long it is
    def inspect
      "#<struct #{self.class} #{each_pair.map { |name, value| "#{name}=#{brief(value)}" }.join(', ')}>"
    end

    alias to_s inspect

    # What `pp` and irb print. Struct has a form of its own, which does not ask inspect.
    # @!visibility private
    def pretty_print(printer) = printer.text(inspect)

    private

    def brief(value)
      return value.inspect unless value.is_a?(String) && value.bytesize > LONGEST

      "#{value.byteslice(0, LONGEST).scrub('').inspect}... (#{value.bytesize} bytes)"
    end
  end
  private_constant :Brief

  # One row of the table "jobs" as it was stored when {DB#state} or {DB#list} read it. Frozen, and so are its
  # strings, which are UTF-8. Printed, texts of more than 100 bytes are cut.
  #
  # @!attribute [r] id
  #   @return [String]
  # @!attribute [r] owner
  #   @return [String, nil] who holds or last held the job; nil when nobody has since it was made or released
  # @!attribute [r] until
  #   @return [Float] when the lease is over, in seconds of the callers' clock; at now == until it is over
  # @!attribute [r] fence
  #   @return [Integer] the newest fence that was granted; 0 when none was
  # @!attribute [r] result
  #   @return [String, nil] nil when there is none
  # @!attribute [r] done
  #   @return [Boolean] whether the job is complete
  Job = Struct.new(:id, :owner, :until, :fence, :result, :done, keyword_init: true) do
    include Brief

    # @!visibility private
    def initialize(**)
      super
      freeze
    end

    # @return [Boolean] whether the job is complete
    def done? = done
  end

  # A job that was granted to its claimer. Frozen, and so is its id. Printed, an id of more than 100 bytes is
  # cut.
  #
  # @!attribute [r] id
  #   @return [String]
  # @!attribute [r] fence
  #   @return [Integer] what renew, complete and release ask for
  Grant = Struct.new(:id, :fence, keyword_init: true) do
    include Brief

    # @!visibility private
    def initialize(**)
      super
      freeze
    end
  end
end
