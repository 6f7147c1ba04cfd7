# frozen_string_literal: true

module Fencepost
  # What the library said about a call that did not end well.
  module Detail
    # @return [Integer, nil] the status as `fencepost.h` numbers it: above 0 refused, below 0 failed; nil
    #   when the library was not asked
    attr_reader :status
    # @return [Integer] SQLite's extended result code, 0 when SQLite had no part in it
    attr_reader :sqlite_code

    # @param message [String, nil]
    # @param status [Integer, nil]
    # @param sqlite_code [Integer]
    def initialize(message = nil, status: nil, sqlite_code: 0)
      super(message)
      @status = status
      @sqlite_code = sqlite_code
    end
  end

  # Every error of this library but {InvalidArgument}, which is an ArgumentError.
  class Error < StandardError
    include Detail
  end

  # The handle was closed before the call.
  class Closed < Error; end

  # The lease's rules said no, and nothing was changed. Raised by the methods that end in `!`. It is final:
  # trying again with the same owner and fence does not help.
  class Refused < Error; end

  # There is a job of this id already; it was left as it is.
  class Exists < Refused; end
  # There is no job of this id.
  class NotFound < Refused; end
  # Another lease on the job has not run out yet.
  class Held < Refused; end
  # The job is complete.
  class Done < Refused; end
  # This owner and fence do not hold the job (any more): stop working on it.
  class Stale < Refused; end
  # Owner and fence are the current ones, and the lease is over (now >= until).
  class Expired < Refused; end

  # The call failed: unlike a refusal this says nothing about the lease.
  class Failure < Error; end

  # The file stayed locked for the whole busy timeout. Nothing was changed; try again.
  class Busy < Failure; end
  # The file cannot be opened.
  class CannotOpen < Failure; end
  # The file is not an SQLite database, or is encrypted.
  class NotADatabase < Failure; end
  # There is no table "jobs" yet (see {DB#init_db}), or one of another shape.
  class SchemaError < Failure; end
  # The file is damaged, or holds a row that no correct program writes.
  class Corrupt < Failure; end
  # The system reported an I/O error, or the file was deleted or replaced while it was open. The operation
  # happened whole or not at all; look with {DB#state}.
  class IOError < Failure; end
  # The disk is full.
  class Full < Failure; end
  # The file, or the handle, is for reading only.
  class ReadOnly < Failure; end
  # Memory ran out.
  class OutOfMemory < Failure; end
  # The job's fence is the largest 64-bit number; it can never be granted again.
  class FenceExhausted < Failure; end
  # The library does not do this, by design; the message says why.
  class Unsupported < Failure; end
  # A fault of the library itself.
  class InternalError < Failure; end

  # An argument is out of range, such as a ttl of 0; the message names it. An ArgumentError, as it is the
  # caller's mistake and not the file's trouble.
  class InvalidArgument < ArgumentError
    include Detail
  end

  # A status of the library as an exception.
  # @api private
  module Status
    OK = 0

    EXCEPTIONS = {
      1 => Exists, 2 => NotFound, 3 => Held, 4 => Done, 5 => Stale, 6 => Expired,
      -1 => InvalidArgument, -2 => Busy, -3 => CannotOpen, -4 => NotADatabase, -5 => SchemaError,
      -6 => Corrupt, -7 => IOError, -8 => Full, -9 => ReadOnly, -10 => OutOfMemory,
      -11 => FenceExhausted, -12 => Unsupported, -13 => InternalError
    }.freeze

    # A number that a later library added is known by its sign.
    def self.exception(status, detail)
      EXCEPTIONS.fetch(status) { status.positive? ? Refused : Failure }
                .new(detail.text, status: status, sqlite_code: detail[:sqlite_code])
    end
  end
  private_constant :Status
end
