# frozen_string_literal: true

require_relative "lib/fencepost/version"

Gem::Specification.new do |spec|
  spec.name = "fencepost"
  spec.version = Fencepost::VERSION
  spec.authors = ["The fencepost authors"]
  spec.summary = "Ownership leases with rising fencing tokens in one SQLite file"
  spec.description = "Claim, renew, complete and release jobs that any number of processes, in any " \
                     "language, share in one SQLite file. A worker that stalled past its lease cannot " \
                     "overwrite the result of the one that took over. Needs libfencepost.so.0."
  # Where Go's module path says that the source is: there is no other page.
  spec.homepage = "https://github.com/fencepost/fencepost"
  spec.license = "MIT"
  spec.platform = Gem::Platform::RUBY
  spec.required_ruby_version = ">= 3.1"
  spec.requirements = ["libfencepost #{Fencepost::VERSION[/\A\d+\.\d+/]}.x"]
  spec.metadata = { "rubygems_mfa_required" => "true" }

  spec.files = Dir.chdir(__dir__) { Dir["lib/**/*.rb", "example/*.rb", "README.md", "LICENSE", ".yardopts"] }
  spec.extra_rdoc_files = ["README.md", "LICENSE"]
  spec.require_paths = ["lib"]

  spec.add_dependency "ffi", ">= 1.15.5", "< 2"
end
