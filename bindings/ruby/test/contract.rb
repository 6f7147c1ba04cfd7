# frozen_string_literal: true

require "strscan"

# Reads and runs the contract's files; tests/contract/README.md describes them.
module Contract
  Case = Struct.new(:name, :steps)
  Step = Struct.new(:name, :arguments, :expected, :place)
  # A word that is neither a value nor a string: the name of a step or a status.
  Name = Struct.new(:text)

  WORDS = { "null" => nil, "true" => true, "false" => false, "nan" => Float::NAN,
            "inf" => Float::INFINITY, "-inf" => -Float::INFINITY }.freeze
  ESCAPES = { "n" => "\n", "t" => "\t" }.freeze

  module_function

  def cases(file)
    steps = File.readlines(file, chomp: true, encoding: "UTF-8").each_with_index.filter_map do |line, index|
      step(line, "#{file}:#{index + 1}") unless line.match?(/\A\s*(#|\z)/)
    end
    steps.slice_before { |step| step.name == "case" }.map do |first, *rest|
      raise "#{first.place}: a file begins with a case" unless first.name == "case"

      Case.new(first.arguments.first, rest)
    end
  end

  def step(line, place)
    left, right = words(line, place)
    name = left.shift
    raise "#{place}: a step begins with its name" unless name.is_a?(Name)

    Step.new(name.text, left, right, place)
  end

  # The words before and after the arrow.
  def words(line, place)
    scanner = StringScanner.new(line)
    sides = [[], []]
    side = sides.first
    until scanner.skip(/\s*/) && scanner.eos?
      if scanner.skip(/=>/)
        side = sides.last
      else
        side << word(scanner, place)
      end
    end
    sides
  end

  def word(scanner, place)
    if scanner.scan(/"((?:[^"\\]|\\.)*)"(?:\*(\d+))?/)
      scanner[1].gsub(/\\(.)/) { ESCAPES.fetch(Regexp.last_match(1)) { Regexp.last_match(1) } } *
        (scanner[2] || 1).to_i
    elsif scanner.skip(/\[/)
      list(scanner, place)
    else
      bare_word(scanner.scan(/[^\s\]]+/), place)
    end
  end

  def list(scanner, place)
    words = []
    until scanner.skip(/\s*\]/)
      scanner.skip(/\s*/)
      raise "#{place}: a list without its end" if scanner.eos?

      words << word(scanner, place)
    end
    words
  end

  def bare_word(text, place)
    case text
    when *WORDS.keys then WORDS[text]
    when /\A-?\d+\z/ then Integer(text, 10)
    when /\A-?[\d.]+(e[+-]?\d+)?\z/ then Float(text)
    when /\A[A-Za-z_]+\z/ then Name.new(text)
    else raise "#{place}: unknown word #{text.inspect}"
    end
  end

  # Runs one case in a folder.
  class Runner
    # Around every call of the library, for whoever wants to make it harder.
    def initialize(test, folder, &around)
      @test = test
      @path = File.join(folder, "jobs.db")
      @around = around || ->(&call) { call.call }
    end

    def run(contract_case)
      @db = Fencepost.open(@path).init_db
      contract_case.steps.each { |step| check(step) }
    ensure
      @db&.close
    end

    private

    def check(step)
      raise "#{step.place}: unknown step #{step.name}" unless respond_to?("do_#{step.name}", true)

      answer = send("do_#{step.name}", *step.arguments)
      expected = step.expected.map { |word| word.is_a?(Name) ? word.text : word }
      @test.assert_equal expected, answer, "#{step.place}: #{step.name}"
    end

    # The status and what the block makes of the answer.
    def status
      answer = @around.call { yield @db }
      ["OK", *(block_given? && answer.is_a?(Array) ? answer : [])]
    rescue Fencepost::Error, Fencepost::InvalidArgument => e
      [Fencepost.send(:const_get, :Native).fencepost_status_name(e.status).delete_prefix("FENCEPOST_")]
    rescue TypeError, ArgumentError, RangeError
      ["INVALID_ARGUMENT"] # the wrapper's own, before the call
    end

    def do_init_db = status(&:init_db)

    def do_enqueue(id) = status { |db| db.enqueue!(id) }

    def do_state(id)
      status { |db| db.state!(id).to_a }
    end

    def do_claim(id, owner, now, ttl)
      status { |db| [db.claim!(id, owner: owner, now: now, ttl: ttl)] }
    end

    def do_renew(id, owner, fence, now, ttl)
      status { |db| db.renew!(id, owner: owner, fence: fence, now: now, ttl: ttl) }
    end

    def do_complete(id, owner, fence, now, result)
      status { |db| db.complete!(id, owner: owner, fence: fence, now: now, result: result) }
    end

    def do_release(id, owner, fence)
      status { |db| db.release!(id, owner: owner, fence: fence) }
    end

    def do_enqueue_at(id, not_before) = status { |db| db.enqueue_at!(id, not_before: not_before) }

    def do_enqueue_many(ids) = status { |db| db.enqueue_many!(ids) }

    def do_release_at(id, owner, fence, not_before)
      status { |db| db.release_at!(id, owner: owner, fence: fence, not_before: not_before) }
    end

    def do_claim_next(owner, now, ttl)
      status { |db| db.claim_next!(owner: owner, now: now, ttl: ttl).to_a }
    end

    def do_claim_batch(owner, now, ttl, max)
      status { |db| db.claim_batch!(owner: owner, now: now, ttl: ttl, max: max).flat_map(&:to_a) }
    end

    def do_complete_and_claim_next(id, owner, fence, now, result, ttl)
      status do |db|
        lease = { owner: owner, fence: fence, now: now }
        next_job = db.complete_and_claim_next!(id, **lease, result: result, ttl: ttl)
        next_job ? next_job.to_a : ["none"]
      end
    end

    def do_force_release(id) = status { |db| [db.force_release!(id)] }

    def do_requeue(id) = status { |db| db.requeue!(id) }

    def do_purge(before, max) = status { |db| [db.purge(before: before, max: max)] }

    def do_raise_floor(floor) = status { |db| db.raise_floor(floor) }

    def do_count(condition, now) = status { |db| [db.count(condition.text.to_sym, now: now)] }

    def do_list(condition, now, after, max)
      status { |db| db.list(condition.text.to_sym, now: now, after: after, max: max).map(&:id) }
    end

    def do_claim_many(id, owners, now, ttl)
      status do |db|
        fences = db.claim_many!(id, owners: owners, now: now, ttl: ttl)
        @test.assert_equal owners.size, fences.size
        @test.assert_equal [owners.size, 1].min, fences.compact.size
        [fences.compact.first || "none"]
      end
    end

    def do_reopen
      @db.close
      @db = Fencepost.open(@path)
      []
    end

    def do_sql(statement)
      out, err, status = Open3.capture3("sqlite3", "-batch", "-cmd", ".timeout 5000", @path, statement)
      raise "sqlite3 failed: #{err}" unless status.success?

      [out.force_encoding(Encoding::UTF_8).chomp]
    end
  end
end
