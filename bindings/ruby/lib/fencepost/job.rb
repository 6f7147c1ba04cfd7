# frozen_string_literal: true

module Fencepost
  # One row of the table "jobs" as it was stored when {DB#state} or {DB#list} read it. Frozen, and so are its
  # strings, which are UTF-8.
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
    # @!visibility private
    def initialize(**)
      super
      freeze
    end

    # @return [Boolean] whether the job is complete
    def done? = done
  end

  # A job that was granted to its claimer. Frozen, and so is its id.
  #
  # @!attribute [r] id
  #   @return [String]
  # @!attribute [r] fence
  #   @return [Integer] what renew, complete and release ask for
  Grant = Struct.new(:id, :fence, keyword_init: true) do
    # @!visibility private
    def initialize(**)
      super
      freeze
    end
  end
end
