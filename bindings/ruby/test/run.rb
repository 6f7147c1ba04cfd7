# frozen_string_literal: true

# Runs all tests: ruby test/run.rb [minitest's options]

require_relative "helper"

Dir[File.join(__dir__, "*_test.rb")].each { |file| require file }

puts "Ruby #{RUBY_VERSION}, ffi #{FFI::VERSION}, libfencepost #{Fencepost.library_version}"
