# frozen_string_literal: true

module Fencepost
  # The gem's version. It works with libfencepost of the same MAJOR.MINOR.
  VERSION = "0.1.0"
end
