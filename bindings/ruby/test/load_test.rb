# frozen_string_literal: true

require_relative "helper"

# What requiring the gem says when the library is not there or not the right one.
class LoadTest < FencepostTest
  def load_error(folder, *arguments)
    out, _, status = ruby(*arguments, "-e", <<~RUBY, env: { "LD_LIBRARY_PATH" => folder })
      begin
        require "fencepost"
      rescue LoadError => e
        puts e.message
        exit 3
      end
    RUBY
    assert_equal 3, status.exitstatus, "it was loaded"
    out
  end

  def test_a_library_of_another_minor_version_is_refused
    message = load_error(standin("0.2.0"))
    assert_match(/\Afencepost #{Fencepost::VERSION} needs libfencepost 0\.1\.x, .* is 0\.2\.0\./, message)
  end

  def test_a_library_of_another_major_version_is_refused
    assert_match(/ is 1\.1\.0\./, load_error(standin("1.1.0")))
    assert_match(/ is 0\.10\.0\./, load_error(standin("0.10.0")))
  end

  def test_a_library_of_another_patch_version_is_taken
    out, err, status = ruby("-e", 'require "fencepost"; puts Fencepost.library_version',
                            env: { "LD_LIBRARY_PATH" => standin("0.1.99") })
    assert_equal ["0.1.99\n", ""], [out, err]
    assert_predicate status, :success?
  end

  # Wherever this machine has one: ffi is told that nothing can be opened.
  def test_a_missing_library_is_named_with_what_to_do
    File.write(path("none.rb"), <<~RUBY)
      require "ffi"
      FFI::DynamicLibrary.define_singleton_method(:open) { |*| raise LoadError, "no such file" }
    RUBY
    assert_match(/libfencepost\.so\.0.*LD_LIBRARY_PATH/, load_error(@folder, "-r", path("none.rb")))
  end
end
