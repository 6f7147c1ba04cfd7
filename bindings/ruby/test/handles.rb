# frozen_string_literal: true

# Run by memory_test.rb: says what is closed and freed, and when.

require "fencepost"

NATIVE = Fencepost.send(:const_get, :Native)
NATIVE.singleton_class.prepend(Module.new do
  def fencepost_close(pointer)
    puts pointer.address
    super
  end

  def fencepost_job_free(pointer)
    puts pointer.address unless pointer.null?
    super
  end
end)

def drop_handles
  20.times { |n| Fencepost.open("#{ARGV.first} #{n}") }
  nil
end

puts "closed:"
kept = Array.new(3) { |n| Fencepost.open("#{ARGV.first} #{n}") }
kept[0].close

puts "closed again:"
kept[0].close

puts "jobs read:"
kept[1].init_db.enqueue("a")
kept[1].state("a")
kept[1].state("none")

puts "reading broken off:"
NATIVE::Row.class_eval do
  def text(_field) = raise(NoMemoryError)
end
begin
  kept[1].state("a")
  abort "it was not"
rescue NoMemoryError
  # as it should be
end

puts "collected:"
drop_handles
GC.start

puts "left over:"
