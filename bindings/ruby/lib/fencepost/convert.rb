# frozen_string_literal: true

module Fencepost
  # Ruby's values as C takes them. What C could not take is refused here, with Ruby's own exceptions.
  # @api private
  module Convert
    INT64 = (-(2**63)..((2**63) - 1))
    LONGEST_WAIT_MS = (2**31) - 1

    module_function

    # A copy in UTF-8, so that no other thread can change it while C reads it.
    def text(value, name)
      string = String.try_convert(value)
      raise TypeError, "#{name} must be a String, not #{value.class}" unless string

      copy = utf8(string, name)
      raise ArgumentError, "#{name} is not valid UTF-8" unless copy.valid_encoding?
      raise ArgumentError, "#{name} contains a NUL" if copy.include?("\0")

      copy
    end

    def utf8(string, name)
      string.encoding == Encoding::UTF_8 ? String.new(string) : string.encode(Encoding::UTF_8)
    rescue EncodingError => e
      raise ArgumentError, "#{name} cannot be made UTF-8 from #{string.encoding}: #{e.message}"
    end

    # The bytes as they are, as File.open has it; the library asks that they are UTF-8.
    def path(value)
      text(File.path(value).dup.force_encoding(Encoding::UTF_8), "path")
    end

    def number(value, name)
      return value.to_f if value.is_a?(Numeric) && value.real?

      raise TypeError, "#{name} must be a number of seconds, not #{value.class}"
    end

    def time(value, name)
      value.is_a?(Time) ? value.to_f : number(value, name)
    end

    def fence(value)
      raise TypeError, "fence must be an Integer, not #{value.class}" unless value.is_a?(Integer)
      raise RangeError, "fence #{value} does not fit in 64 bits" unless INT64.cover?(value)

      value
    end

    def condition(value)
      Native::CONDITIONS.fetch(value) do
        raise ArgumentError,
              "condition must be one of #{Native::CONDITIONS.keys.inspect}, not #{value.inspect}"
      end
    end

    def max(value, name = "max")
      raise TypeError, "#{name} must be an Integer, not #{value.class}" unless value.is_a?(Integer)
      raise RangeError, "#{name} must be 1 to #{INT64.max}, not #{value}" unless (1..INT64.max).cover?(value)

      value
    end

    # In the options 0 is the default and a negative number is no wait at all.
    def busy_timeout_ms(value)
      return 0 if value.nil?

      seconds = number(value, "busy_timeout")
      unless (0..LONGEST_WAIT_MS / 1000.0).cover?(seconds)
        raise ArgumentError, "busy_timeout must be 0 to #{LONGEST_WAIT_MS / 1000} seconds, not #{value}"
      end

      seconds.zero? ? -1 : (seconds * 1000).ceil
    end

    def options(busy_timeout, durability, flags)
      options = Native::Options.new
      options[:size] = Native::Options.size
      options[:busy_timeout_ms] = busy_timeout_ms(busy_timeout)
      options[:durability] = Native::DURABILITY.fetch(durability) do
        raise ArgumentError, "durability must be :full or :normal, not #{durability.inspect}"
      end
      options[:flags] = flags.sum { |flag, given| given ? flag : 0 }
      options
    end

    # An Array of Strings as a C array. The second value keeps the memory of the strings; hold on to it.
    def texts(values, name)
      array = Array.try_convert(values)
      raise TypeError, "#{name} must be an Array, not #{values.class}" unless array

      strings = Array.new(array.size) do |index|
        FFI::MemoryPointer.from_string(text(array[index], "#{name}[#{index}]"))
      end
      return [nil, strings] if strings.empty?

      [FFI::MemoryPointer.new(:pointer, strings.size).write_array_of_pointer(strings), strings]
    end
  end
  private_constant :Convert
end
