# frozen_string_literal: true

require_relative "helper"

# The ffi declarations against the header.
class ABITest < FencepostTest
  STRUCTS = { "fencepost_options" => :Options, "fencepost_error" => :Detail, "fencepost_job" => :Row,
              "fencepost_jobs" => :Rows, "fencepost_grant" => :Granted,
              "fencepost_grants" => :AllGranted }.freeze
  TYPES = { "double" => :double, "int64_t" => :int64, "int32_t" => :int32, "size_t" => :size_t,
            "uint64_t" => :uint64, "bool" => :bool,
            "fencepost_status" => :int32, "void" => :void, "const char *" => :string }.freeze
  EXCEPTIONS = {
    "EXISTS" => "Exists", "NOT_FOUND" => "NotFound", "HELD" => "Held", "DONE" => "Done", "STALE" => "Stale",
    "EXPIRED" => "Expired", "INVALID_ARGUMENT" => "InvalidArgument", "BUSY" => "Busy",
    "CANNOT_OPEN" => "CannotOpen", "NOT_A_DATABASE" => "NotADatabase", "SCHEMA" => "SchemaError",
    "CORRUPT" => "Corrupt", "IO" => "IOError", "FULL" => "Full", "READ_ONLY" => "ReadOnly",
    "OUT_OF_MEMORY" => "OutOfMemory", "FENCE_EXHAUSTED" => "FenceExhausted", "UNSUPPORTED" => "Unsupported",
    "INTERNAL" => "InternalError"
  }.freeze

  # The header without its comments.
  def header
    File.read(HEADER, encoding: "UTF-8").gsub(%r{/\*.*?\*/|//[^\n]*}m, " ")
  end

  # What a C program prints that includes the header.
  def from_c(statements)
    File.write(path("print.c"), <<~C)
      #include <stdio.h>
      #include "fencepost.h"
      int main(void) { #{statements.join(' ')} return 0; }
    C
    out, status = Open3.capture2(compile(path("print.c"), "print"))
    assert_predicate status, :success?
    out.split("\n")
  end

  def test_the_structs_have_the_headers_layout
    layouts = STRUCTS.transform_values { |name| native.const_get(name) }
    statements = layouts.flat_map do |name, struct|
      ["printf(\"%zu\\n\", sizeof(#{name}));"] + struct.members.map do |field|
        "printf(\"#{field} %zu %zu\\n\", offsetof(#{name}, #{field}), sizeof(((#{name} *)0)->#{field}));"
      end
    end
    expected = layouts.values.flat_map do |struct|
      fields = struct.new.layout.fields
      [struct.size.to_s] + fields.map { |field| "#{field.name} #{field.offset} #{field.size}" }
    end
    assert_equal expected, from_c(statements)
  end

  def test_the_structs_have_the_headers_fields
    STRUCTS.each do |name, struct|
      body = header[/struct #{name} \{(.*?)\}/m, 1]
      assert_equal body.scan(/(\w+)(?:\[\d+\])?;/).flatten.map(&:to_sym), native.const_get(struct).members
    end
  end

  def test_every_status_has_its_exception
    statuses = header.scan(/\bFENCEPOST_(\w+) = (-?\d+)/).to_h.transform_values(&:to_i)
    assert_equal 0, statuses.delete("OK")
    exceptions = Fencepost.send(:const_get, :Status)::EXCEPTIONS
    assert_equal EXCEPTIONS, statuses.transform_values { |number| exceptions[number].name.split("::").last }
    assert_equal statuses.values.sort, exceptions.keys.sort
    statuses.each do |name, number|
      assert_equal "FENCEPOST_#{name}", native.fencepost_status_name(number)
      parent = number.positive? ? Fencepost::Refused : Fencepost::Failure
      parent = ArgumentError if name == "INVALID_ARGUMENT"
      assert_operator exceptions[number], :<, parent
    end
  end

  def test_the_constants_are_the_headers
    names = %w[OPEN_EXISTING OPEN_READ_ONLY OPEN_KEEP_JOURNAL_MODE OPEN_ALLOW_NETWORK_FILESYSTEM]
    assert_equal names.sort, header.scan(/#define FENCEPOST_(OPEN_\w+)/).flatten.sort
    assert_equal names.map { |name| native.const_get(name).to_s },
                 from_c(names.map { |name| "printf(\"%d\\n\", FENCEPOST_#{name});" })
    conditions = header.scan(/#define FENCEPOST_CONDITION_(\w+) (\d+)/)
    assert_equal native::CONDITIONS, conditions.to_h { |name, number| [name.downcase.to_sym, number.to_i] }
    durability = header.scan(/#define FENCEPOST_DURABILITY_(\w+) (\d+)/)
    assert_equal native::DURABILITY, durability.to_h { |name, number| [name.downcase.to_sym, number.to_i] }
  end

  def test_every_function_is_declared_as_in_the_header
    prototypes = header.scan(/^([\w *]+?)\b(fencepost_\w+)\(([^)]*)\);/m)
    declared = { fencepost_version: [[], :string] }.merge(native::BLOCKING, native::IMMEDIATE)
    expected = prototypes.to_h { |answer, name, arguments| [name.to_sym, signature(answer, arguments)] }
    assert_equal 29, expected.size
    assert_equal expected, declared
  end

  # A prototype as ffi has it: strings and plain types by name, everything else is a pointer.
  def signature(answer, arguments)
    types = arguments.split(",").map(&:strip).reject { |argument| argument == "void" }
    [types.map { |argument| type(argument.sub(/\w+\z/, "")) }, type(answer)]
  end

  def type(text)
    TYPES.fetch(text.gsub(/\s+/, " ").strip) { text.include?("*") ? :pointer : flunk("unknown type #{text}") }
  end

  def test_the_versions_agree
    assert_equal [Fencepost::VERSION], from_c(["printf(\"%s\\n\", FENCEPOST_VERSION);"])
    assert_equal Fencepost::VERSION, Fencepost.library_version
  end
end
