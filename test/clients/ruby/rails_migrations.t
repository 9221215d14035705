#!/usr/bin/ruby
# What pawl sql prints for Rails, run by ActiveRecord: afterwards pawl plan has nothing to do.
require 'active_record'
require 'fileutils'
require 'tmpdir'
require_relative 'tap'

DATABASE = 'pawl_clients'.freeze
PROGRAM = File.join(__dir__, '..', '..', '..', 'build', 'programs', 'client', 'pawl')
PAWL = [PROGRAM, '--database', "dbname=#{DATABASE}"].freeze

def diagram(paid, remap)
  <<~MERMAID
    ---
    pawl:
      machine: rails_order
      #{remap}
      tables:
        - table: rails_files.orders
          column: state
          log: true
    ---
    stateDiagram-v2
        [*] --> cart
        cart --> #{paid} : pay
        #{paid} --> sent : send
        sent : it's "sent" \#{1 + 1}
        sent --> [*]
  MERMAID
end

ActiveRecord::Base.establish_connection(
  adapter: 'postgresql', database: DATABASE, host: ENV['PGHOST'], port: ENV['PGPORT'], username: ENV['PGUSER'],
  schema_search_path: 'rails_files,public'
)
connection = ActiveRecord::Base.connection
connection.execute(<<~SQL)
  set client_min_messages to error;
  drop schema if exists rails_files cascade;
  create schema rails_files;
  create table rails_files.orders (id integer primary key, state text not null);
  insert into rails_files.orders values (1, 'cart'), (2, 'paid');
SQL
ActiveRecord::Migration.verbose = false
Dir.mktmpdir do |folder|
  files = File.join(folder, 'lifecycles')
  migrations = File.join(folder, 'migrate')
  FileUtils.mkdir_p([files, migrations])
  [['paid', ''], ['billed', 'remap: {paid: billed}']].each_with_index do |(paid, remap), n|
    File.write(File.join(files, 'order.mmd'), diagram(paid, remap))
    printed = IO.popen([*PAWL, 'sql', files, '--format', 'rails'], &:read)
    equal($?.exitstatus, 0, "migration #{n + 1} is printed")
    # each migration has a class and a file of its own
    name = "PawlLifecycles#{n + 1}"
    File.write(File.join(migrations, "2026010100000#{n}_#{name.underscore}.rb"), printed.sub('PawlLifecycles', name))
    ActiveRecord::MigrationContext.new(migrations, ActiveRecord::SchemaMigration).migrate
    system(*PAWL, 'plan', '--exit-code', files, out: File::NULL)
    equal($?.exitstatus, 0, "after migration #{n + 1} nothing is left to do")
  end
end
equal(connection.select_values('select state from rails_files.orders order by id'), %w[cart billed],
      'the rows are in the new state')
equal(connection.select_value("select pawl.diagram('rails_order')").include?("it's \"sent\" \#{1 + 1}"), true,
      'the text of the diagram arrives as it is')
end_tests
