#!/usr/bin/ruby
# The two Rakefiles of docs/drivers.md with Rails' own tasks: what rake db:schema:dump writes.
require 'active_record'
require 'rake'
require 'tmpdir'
require_relative 'tap'

DATABASE = 'pawl_clients_dumps'.freeze
TEST = 'pawl_clients_dumps_test'.freeze
SETTINGS = { adapter: 'postgresql', host: ENV['PGHOST'], port: ENV['PGPORT'], username: ENV['PGUSER'] }.freeze
PAGE = File.read(File.join(__dir__, '..', '..', '..', 'docs', 'drivers.md'))
RAKEFILES = PAGE[/^\*\*Rails\*\* with `schema\.rb`.*?(?=^\*\*Django)/m].scan(/```ruby\n(.*?)```/m).flatten
TASKS = File.join(Gem::Specification.find_by_name('activerecord').gem_dir, 'lib/active_record/railties/databases.rake')

# What rake db:schema:dump of an application with this Rakefile writes, in a process of its own.
def dumped(format, rakefile)
  Dir.mktmpdir do |folder|
    pid = fork do
      Dir.chdir(folder)
      File.write('Rakefile', "task(:environment) {}\nload '#{TASKS}'\n#{rakefile}")
      tasks = ActiveRecord::Tasks::DatabaseTasks
      tasks.root = folder
      tasks.db_dir = 'db'
      tasks.env = 'test'
      tasks.migrations_paths = []
      ActiveRecord::Base.schema_format = format
      ActiveRecord::Base.configurations = { 'test' => SETTINGS.merge(database: DATABASE) }
      ActiveRecord::Base.establish_connection(:test)
      Rake.application.init('rake', ['db:schema:dump'])
      Rake.load_rakefile('Rakefile')
      Rake::Task['db:schema:dump'].invoke
    end
    Process.wait(pid)
    ok($?.success?, "db:schema:dump as #{format} ends well", $?)
    File.read(File.join(folder, 'db', format == :ruby ? 'schema.rb' : 'structure.sql'))
  end
end

def state_of(connection, statement)
  connection.execute(statement) && 'done'
rescue ActiveRecord::StatementInvalid => e
  e.cause.result.error_field(PG::PG_DIAG_SQLSTATE)
end

[DATABASE, TEST].each do |name|
  system('dropdb', '--if-exists', name, exception: true)
  system('createdb', name, exception: true)
end
ActiveRecord::Base.establish_connection(SETTINGS.merge(database: DATABASE))
ActiveRecord::Base.connection.execute(<<~SQL)
  create extension pawl;
  create table parcels (id integer primary key, state text not null);
  select pawl.define('rails_parcel', 'stateDiagram-v2
    [*] --> packed
    packed --> sent : send
    sent --> [*]');
  select pawl.enforce('parcels', 'state', 'rails_parcel'), pawl.enable_log('parcels');
SQL
ActiveRecord::Base.connection_pool.disconnect!

equal(RAKEFILES.size, 2, 'the page has a Rakefile for each form of the schema')
schema = dumped(:ruby, '')
ok(schema.include?('parcels_transitions'), 'schema.rb has the log without the Rakefile of the page', schema)
schema = dumped(:ruby, RAKEFILES[0])
ok(!schema.include?('transitions') && schema.include?('create_table "parcels"'), 'with it the table alone', schema)

structure = dumped(:sql, RAKEFILES[1])
IO.popen(['psql', '-X', '-q', '-d', TEST, '-v', 'ON_ERROR_STOP=1', '-o', File::NULL], 'w') { |psql| psql << structure }
ok($?.success?, 'structure.sql with the definitions at its end is loaded', structure)
ActiveRecord::Base.establish_connection(SETTINGS.merge(database: TEST))
test = ActiveRecord::Base.connection
equal(state_of(test, "insert into public.parcels values (1, 'packed')"), 'done', 'a row is inserted into what it made')
equal(state_of(test, "insert into public.parcels values (2, 'sent')"), 'PW002', 'and is enforced')
equal(test.select_value('select count(*) from public.parcels_transitions'), 1, 'and logged')
test.disconnect!
end_tests
