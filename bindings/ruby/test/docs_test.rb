# frozen_string_literal: true

require_relative "helper"

# What is shown is run, and what is packed is whole.
class DocsTest < FencepostTest
  README = File.read(File.join(RUBY_FOLDER, "README.md"), encoding: "UTF-8")

  # Each line that ends with `# => value` is checked.
  def checked(snippet)
    snippet.gsub(/^(\s*)(\S.*?)\s+# => (.*)$/) do
      indent, expression, value = Regexp.last_match.captures
      "#{indent}(#{expression}).inspect.then { |it| it == #{value.inspect} or abort(it) }"
    end
  end

  README.scan(/^```ruby\n(.*?)^```/m).flatten.each_with_index do |snippet, index|
    define_method("test_snippet_#{index + 1}_of_the_readme_works_as_pasted") do
      out, err, status = ruby("-W", "-e", checked(snippet), chdir: @folder)
      assert_equal ["", ""], [out, err]
      assert_predicate status, :success?
    end
  end

  def test_a_snippet_that_says_something_wrong_fails
    _, err, status = ruby("-e", checked("1 + 1 # => 3\n"))
    assert_equal ["2\n", false], [err, status.success?]
  end

  def test_the_readme_has_the_snippets_that_are_tested
    assert_operator README.scan(/^```ruby$/).size, :>=, 3
  end

  def test_the_example_does_each_job_once
    example = File.join(RUBY_FOLDER, "example", "worker.rb")
    first, err, = ruby("-w", example, path, "a", "b")
    assert_equal ["", "a: done with fence 1\nb: done with fence 1\n"], [err, first]
    second, = ruby(example, path, "a", "c")
    assert_match(/\Aa: done by \d+@ruby\nc: done with fence 1\n\z/, second)
  end

  def test_the_gem_is_built_installed_and_required
    gem = "fencepost-#{Fencepost::VERSION}.gem"
    run_gem("build", "--strict", "fencepost.gemspec", "--output", path(gem))
    run_gem("install", "--local", "--ignore-dependencies", "--no-document",
            "--install-dir", path("gems"), path(gem))
    env = { "GEM_PATH" => [path("gems"), *Gem.path].join(":") }
    out, err, status = Open3.capture3(env, RbConfig.ruby, "-e", <<~RUBY, chdir: @folder)
      gem "fencepost"
      require "fencepost"
      Fencepost.open("jobs.db", &:init_db)
      puts $LOADED_FEATURES.grep(/fencepost/)
    RUBY
    assert_equal ["", true], [err, status.success?]
    assert(out.lines.all? { |line| line.start_with?(path("gems")) }, out)
    installed = Dir.children(path("gems/gems/fencepost-#{Fencepost::VERSION}"))
    assert_equal %w[.yardopts LICENSE README.md example lib], installed.sort
  end

  def run_gem(*arguments)
    out, status = Open3.capture2e(RbConfig.ruby, "-S", "gem", *arguments, chdir: RUBY_FOLDER)
    assert_predicate status, :success?, out
  end

  def test_the_homepage_is_where_gos_module_path_points
    source = File.read(File.join(ROOT, "bindings", "go", "go.mod"))[%r{^module (.*)/bindings/go$}, 1]
    gem = Gem::Specification.load(File.join(RUBY_FOLDER, "fencepost.gemspec"))
    assert_equal "https://#{source}", gem.homepage
  end

  def test_the_license_is_the_repositorys
    assert_equal File.read(File.join(ROOT, "LICENSE")), File.read(File.join(RUBY_FOLDER, "LICENSE"))
  end
end
