# frozen_string_literal: true

require_relative "helper"
require_relative "contract"

# Runs ../../../tests/contract/*.contract: what every language must be answered.
class ContractTest < FencepostTest
  FILES = Dir[File.join(ROOT, "tests", "contract", "*.contract")]

  FILES.each do |file|
    Contract.cases(file).each do |contract_case|
      define_method("test_#{File.basename(file, '.contract')}: #{contract_case.name}") do
        Contract::Runner.new(self, @folder).run(contract_case)
      end
    end
  end

  def test_there_are_contract_files
    refute_empty FILES
  end

  def test_a_step_that_is_answered_otherwise_fails
    wrong = Contract::Case.new("wrong", [Contract.step('enqueue "a" => EXISTS', "here:1")])
    failure = assert_raises(Minitest::Assertion) { Contract::Runner.new(self, @folder).run(wrong) }
    assert_match(/here:1/, failure.message)
  end

  def test_an_unknown_step_or_word_fails
    assert_raises(RuntimeError) { Contract.step("enqueue what? => OK", "here:1") }
    unknown = Contract::Case.new("unknown", [Contract.step('dequeue "a" => OK', "here:1")])
    assert_raises(RuntimeError) { Contract::Runner.new(self, @folder).run(unknown) }
  end
end
