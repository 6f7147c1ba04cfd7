# frozen_string_literal: true

$LOAD_PATH.unshift File.expand_path("../lib", __dir__)

require "fencepost"
require "fileutils"
require "minitest/autorun"
require "open3"
require "tmpdir"

# What the tests share. Each test has a folder of its own, which is gone after it.
class FencepostTest < Minitest::Test
  RUBY_FOLDER = File.expand_path("..", __dir__)
  ROOT = File.expand_path("../..", RUBY_FOLDER)
  HEADER = File.join(ROOT, "include", "fencepost.h")
  # No test takes this long. It only turns a hang into a failure.
  PATIENCE = 60

  def setup
    @folder = Dir.mktmpdir("fencepost")
    @opened = []
    @pipes = []
  end

  def teardown
    @pipes.each { |pipe| pipe.close unless pipe.closed? }
    @opened.each { |db| finish(Thread.new { db.close }) }
    FileUtils.remove_entry(@folder)
  end

  def path(name = "jobs.db") = File.join(@folder, name)

  def open_db(name = "jobs.db", **options)
    Fencepost.open(path(name), busy_timeout: PATIENCE, **options).tap { |db| @opened << db }
  end

  # Another program on the same file, through another copy of SQLite.
  def sqlite(statement, name = "jobs.db")
    out, err, status = Open3.capture3("sqlite3", "-batch", "-cmd", ".timeout 60000", path(name), statement)
    raise "sqlite3 failed: #{err}" unless status.success?

    out.chomp
  end

  # Another program that holds the file's lock until #unlock.
  def lock(begin_statement = "BEGIN IMMEDIATE", name = "jobs.db")
    holder = IO.popen(["sqlite3", "-batch", path(name)], "r+")
    @pipes << holder
    holder.puts ".timeout 60000", "#{begin_statement};", "SELECT 'locked';"
    assert_equal "locked\n", holder.gets
    holder
  end

  def unlock(holder)
    holder.puts "COMMIT;"
    holder.close
  end

  # Returns when the thread waits in a call: a thread that holds Ruby's lock is never seen asleep.
  def wait_until_asleep(thread)
    pass_until(thread) { thread.status == "sleep" }
  end

  def pass_until(thread)
    until yield
      flunk "the thread ended where it should have waited" unless thread.alive?
      Thread.pass
    end
  end

  def finish(thread)
    assert thread.join(PATIENCE), "the thread hangs"
    thread.value
  end

  # Runs a block in a forked child; answers what the block gave, and fails when the child did.
  def in_child(&block)
    reader, pid = start_child(&block)
    child_answer(reader, pid)
  end

  def start_child
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      Marshal.dump(yield, writer)
      writer.close
      exit!(0) # not through minitest's at_exit
    rescue Exception => e # rubocop:disable Lint/RescueException
      warn e.full_message
      exit!(1)
    end
    writer.close
    [reader, pid]
  end

  def child_answer(reader, pid)
    waiter = Process.detach(pid)
    unless waiter.join(PATIENCE)
      Process.kill(:KILL, pid)
      flunk "the child hangs"
    end
    assert_predicate waiter.value, :success?
    Marshal.load(reader.read)
  ensure
    reader.close
  end

  # Runs Ruby with this gem; answers stdout, stderr and the status.
  def ruby(*arguments, env: {}, **options)
    Open3.capture3(env, RbConfig.ruby, "-I", File.join(RUBY_FOLDER, "lib"), *arguments, **options)
  end

  # Compiles a C file of this folder; answers the path of what came of it.
  def compile(source, output, *flags)
    out, status = Open3.capture2e("cc", "-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
                                  "-I", File.dirname(HEADER), *flags, "-o", path(output), source)
    assert_predicate status, :success?, out
    path(output)
  end

  # A folder with a library in the place of libfencepost; see standin.c.
  def standin(version)
    compile(File.join(__dir__, "standin.c"), "libfencepost.so.0", "-shared", "-fPIC",
            "-DSTANDIN_VERSION=\"#{version}\"")
    @folder
  end

  def native = Fencepost.send(:const_get, :Native)
end
