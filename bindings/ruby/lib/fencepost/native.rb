# frozen_string_literal: true

require "ffi"

module Fencepost
  # The C ABI as `fencepost.h` has it.
  # @api private
  module Native
    extend FFI::Library

    SONAME = "libfencepost.so.0"

    # How to open a file.
    class Options < FFI::Struct
      layout :size, :size_t, :busy_timeout_ms, :int32, :durability, :int32, :flags, :uint32
    end

    # More about what a call answered.
    class Detail < FFI::Struct
      layout :sqlite_code, :int32, :reserved, [:int32, 3], :message, [:char, 496]

      def text = self[:message].to_s.force_encoding(Encoding::UTF_8)
    end

    # A row as the library gives it.
    class Row < FFI::Struct
      layout :id, :pointer, :owner, :pointer, :until, :double, :fence, :int64, :result, :pointer, :done, :bool

      # @return [String, nil]
      def text(field)
        pointer = self[field]
        pointer.read_string.force_encoding(Encoding::UTF_8).freeze unless pointer.null?
      end
    end

    # Rows as the library gives them.
    class Rows < FFI::Struct
      layout :count, :size_t, :jobs, :pointer

      def to_a = self[:jobs].read_array_of_pointer(self[:count]).map { |pointer| Row.new(pointer) }
    end

    # A job that was granted, as the library gives it.
    class Granted < FFI::Struct
      layout :id, :pointer, :fence, :int64

      # @return [String]
      def text = self[:id].read_string.force_encoding(Encoding::UTF_8).freeze

      def to_a = [self]
    end

    # Several of them.
    class AllGranted < FFI::Struct
      layout :count, :size_t, :grants, :pointer

      def to_a = self[:grants].read_array_of_pointer(self[:count]).map { |pointer| Granted.new(pointer) }
    end

    CONDITIONS = { claimable: 1, held: 2, delayed: 3, done: 4, broken: 5 }.freeze

    DURABILITY = { full: 0, normal: 1 }.freeze

    OPEN_EXISTING = 1
    OPEN_READ_ONLY = 2
    OPEN_KEEP_JOURNAL_MODE = 4
    OPEN_ALLOW_NETWORK_FILESYSTEM = 8

    # What can touch the file, and so may wait for a disk or for another process. All of it gives up Ruby's
    # lock for as long, or every other Ruby thread would stand still.
    BLOCKING = {
      fencepost_open: [%i[string pointer pointer pointer], :int32],
      fencepost_close: [%i[pointer], :void],
      fencepost_init_db: [%i[pointer pointer], :int32],
      fencepost_enqueue: [%i[pointer string pointer], :int32],
      fencepost_enqueue_at: [%i[pointer string double pointer], :int32],
      fencepost_enqueue_many: [%i[pointer pointer size_t pointer pointer], :int32],
      fencepost_release_at: [%i[pointer string string int64 double pointer], :int32],
      fencepost_claim_next: [%i[pointer string double double pointer pointer], :int32],
      fencepost_claim_batch: [%i[pointer string double double size_t pointer pointer], :int32],
      fencepost_complete_and_claim_next:
        [%i[pointer string string int64 double string double pointer pointer], :int32],
      fencepost_force_release: [%i[pointer string pointer pointer], :int32],
      fencepost_requeue: [%i[pointer string pointer], :int32],
      fencepost_purge: [%i[pointer double size_t pointer pointer], :int32],
      fencepost_raise_floor: [%i[pointer int64 pointer], :int32],
      fencepost_count: [%i[pointer int32 double pointer pointer], :int32],
      fencepost_list: [%i[pointer int32 double string size_t pointer pointer], :int32],
      fencepost_state: [%i[pointer string pointer pointer], :int32],
      fencepost_claim: [%i[pointer string string double double pointer pointer], :int32],
      fencepost_renew: [%i[pointer string string int64 double double pointer], :int32],
      fencepost_complete: [%i[pointer string string int64 double string pointer], :int32],
      fencepost_release: [%i[pointer string string int64 pointer], :int32],
      fencepost_claim_many: [%i[pointer string pointer size_t double double pointer pointer], :int32]
    }.freeze

    IMMEDIATE = {
      fencepost_job_free: [%i[pointer], :void],
      fencepost_jobs_free: [%i[pointer], :void],
      fencepost_grant_free: [%i[pointer], :void],
      fencepost_grants_free: [%i[pointer], :void],
      fencepost_now: [[], :double],
      fencepost_status_name: [%i[int32], :string]
    }.freeze

    begin
      ffi_lib SONAME
      attach_function :fencepost_version, [], :string
    rescue ::LoadError => e
      raise ::LoadError, "fencepost #{VERSION} needs #{SONAME}, which cannot be loaded. Install the " \
                         "library and run ldconfig, or name its folder in LD_LIBRARY_PATH. (#{e.message})"
    end

    unless fencepost_version.split(".").first(2) == VERSION.split(".").first(2)
      raise ::LoadError, "fencepost #{VERSION} needs libfencepost #{VERSION[/\A\d+\.\d+/]}.x, and the " \
                         "#{SONAME} that was found is #{fencepost_version}. Install matching versions."
    end

    BLOCKING.each { |name, (arguments, answer)| attach_function name, arguments, answer, blocking: true }
    IMMEDIATE.each { |name, (arguments, answer)| attach_function name, arguments, answer }
  end
  private_constant :Native
end
