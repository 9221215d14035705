#!/usr/bin/ruby
# The worker of examples/ruby, on the table that the README makes: what it does all day, jobs that fail, a kill, a lost
# lease, a drain. For the test its lease is a second, and its handler knows jobs that fail and jobs that take long.
require 'pg'
require 'tmpdir'
require_relative 'tap'

TOP = File.expand_path('../../..', __dir__)
ENV['PGDATABASE'] = 'pawl_ruby'

system('createdb', 'pawl_ruby', exception: true)
$db = PG.connect
$db.exec('set client_min_messages to error')
$db.exec('create extension pawl')
$db.exec(File.read("#{TOP}/README.md")[/^## Work queues.*?^```sql\n(.*?)^insert/m, 1])
$db.exec(%q(select pawl.set_claiming('jobs', backoff => '{"base": "10 ms", "max_attempts": 3}')))

def ask(statement, *values)
  $db.exec_params(statement, values).getvalue(0, 0)
end

def until_true(what)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
  until yield
    raise "waited in vain for #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

    ask('select done from pawl.reap()')
    ask('select done from pawl.fire_due()')
    sleep 0.05
  end
end

source = File.read("#{TOP}/examples/ruby/worker.rb")
equal(source.lines.size <= 40, true, 'it has at most 40 lines')
for_test = source.sub("'60 s'", "'1 s'").sub('sleep 20;', 'sleep 0.3;').sub(/^(?=  \{ sent:)/, <<'RUBY')
  raise 'as always' if job['id'].to_i % 100 == 0
  sleep(0.5) if job['id'].to_i > 1000
RUBY
folder = Dir.mktmpdir
at_exit { system('rm', '-rf', folder) }
File.write("#{folder}/worker.rb", for_test)
begin_worker = -> { spawn('ruby', "#{folder}/worker.rb", err: "#{folder}/err") }
ended = ->(pid) { Process.wait(pid) && $?.exitstatus }
states = -> { $db.exec('select state, count(*) from jobs group by 1 order by 1').values.flatten.join(' ') }
owned = -> { ask('select count(*) from jobs where owner is not null').to_i }

$db.exec('insert into jobs (id) select generate_series(1, 120)')
pid = begin_worker.call
until_true('120 jobs') { ask("select count(*) from jobs where state in ('done', 'failed')") == '120' }
equal(states.call, 'done 119 failed 1', 'jobs are done; one fails at each attempt, and stops no other')
equal(ask('select attempts from jobs where id = 100'), '3', 'after three attempts')
equal(ask("select string_agg(distinct metadata ->> 'sent', ',') from pawl.history('jobs', 7)"), 'parcel 7',
      'results are logged')
equal(ask("select string_agg(distinct metadata ->> 'error', ',') from pawl.history('jobs', 100)"), 'as always',
      'and so are errors')
$db.exec('delete from jobs; insert into jobs (id) select generate_series(1001, 1012)')
until_true('jobs at work') { owned.call.positive? }
Process.kill('KILL', pid)
Process.wait(pid)
pid = begin_worker.call
until_true('the jobs of a worker that was killed') { states.call == 'done 12' }
equal(states.call, 'done 12', 'a kill loses no job')

$db.exec('delete from jobs; insert into jobs (id) select generate_series(1021, 1024)')
until_true('jobs at work') { owned.call.positive? }
Process.kill('STOP', pid)
until_true('lost leases') { owned.call.zero? }
Process.kill('CONT', pid)
until_true('the jobs whose lease was lost') { states.call == 'done 4' }
equal(ask("select count(*) from jobs_transitions where subject_id between 1021 and 1024 and to_state = 'done'"), '4',
      'a result that comes too late does not count')

$db.exec('delete from jobs; insert into jobs (id) select generate_series(1031, 1042)')
until_true('jobs at work') { owned.call.positive? }
Process.kill('TERM', pid)
equal(ended.call(pid), 0, 'SIGTERM ends it') || warn(File.read("#{folder}/err"))
equal(owned.call, 0, 'and nothing is left behind')
equal(ask("select count(*) from jobs where state = 'failed'"), '0', 'nor has anything failed')
end_tests
