#!/usr/bin/ruby
# ActiveRecord's migrations on an enforced table, its schema.rb without what pawl has made, and structure.sql.
require 'active_record'
require 'stringio'
require 'tempfile'
require_relative 'tap'

DATABASE = 'pawl_clients_rails'.freeze
TEST = 'pawl_clients_rails_test'.freeze
SETTINGS = { adapter: 'postgresql', host: ENV['PGHOST'], port: ENV['PGPORT'], username: ENV['PGUSER'] }.freeze
ActiveRecord::Migration.verbose = false
[DATABASE, TEST].each do |name|
  system('dropdb', '--if-exists', name, exception: true)
  system('createdb', name, exception: true)
end
ActiveRecord::Base.establish_connection(SETTINGS.merge(database: DATABASE))
ActiveRecord::Base.connection.execute('create extension pawl')

class MakeOrders < ActiveRecord::Migration[6.1]
  def up
    create_table :orders, id: :integer do |t|
      t.string :state, null: false, default: 'new', limit: 20
      t.string :owner
    end
    execute <<~SQL
      select pawl.define('rails_order', 'stateDiagram-v2
        [*] --> new
        new --> paid : pay
        paid --> sent : send
        sent --> [*]
        class paid owned');
      select pawl.enforce('orders', 'state', 'rails_order', on_delete => 'terminal'), pawl.enable_log('orders');
      select pawl.enable_queue('orders', owner => 'owner');
      select pawl.set_claiming('orders', claim => '{pay}')
    SQL
  end
end

class ChangeTypes < ActiveRecord::Migration[6.1]
  def up
    change_column :orders, :state, :text
    change_column :orders, :state, :string, limit: 30
    change_column :orders, :id, :bigint
    execute "create type rails_state as enum ('new', 'paid', 'sent')"
    change_column_default :orders, :state, nil
    change_column :orders, :state, :rails_state, using: 'state::rails_state'
    change_column_default :orders, :state, 'new'
  end
end

class BackToText < ActiveRecord::Migration[6.1]
  def up
    change_column_default :orders, :state, nil
    change_column :orders, :state, :text, using: 'state::text'
    change_column_default :orders, :state, 'new'
    rename_column :orders, :state, :phase
    rename_table :orders, :purchases
  end
end

class OtherTexts < ActiveRecord::Migration[6.1]
  def up
    change_column :purchases, :phase, :text, using: 'upper(phase)'
  end
end

def ask(statement)
  ActiveRecord::Base.connection.exec_query(statement).rows
end

def failure
  yield
  nil
rescue ActiveRecord::StatementInvalid => e
  e
end

def migrate(migration)
  ActiveRecord::Base.transaction { migration.migrate(:up) }
end

def state_of(error)
  error&.cause&.result&.error_field(PG::PG_DIAG_SQLSTATE)
end

def enforced(table, column, name)
  error = failure { ask("update #{table} set #{column} = 'sent' where id = 2") }
  equal(state_of(error), 'PW001', "#{name}: an illegal state change is rejected")
  ok(failure { ask("delete from #{table} where id = 2") }, "#{name}: the policies stay")
  equal(ask("select problem, detail from pawl.verify('#{table}')"), [], "#{name}: rows and log agree")
  equal(ask("select check_name, detail from pawl.health() where relation = '#{table}'::regclass and status = 'error'"),
        [], "#{name}: health finds no fault")
end

migrate(MakeOrders.new)
ask('insert into orders (id) values (1), (2), (3)')
enforced('orders', 'state', 'at first')
before = ask("select pawl.definition('orders')")
migrate(ChangeTypes.new)
enforced('orders', 'state', 'change_column')
equal(ask("select pawl.definition('orders')"), before, 'change_column: the definition is what it was')
equal(ask("select id, state::text from pawl.claim(null::orders, processor => 'anna')"), [[1, 'paid']],
      'change_column: rows are claimed')
migrate(BackToText.new)
enforced('purchases', 'phase', 'enum to text, renames')
equal(ask("select sort_key, to_state from pawl.history('purchases', 1) order by 1"), [[1, 'new'], [2, 'paid']],
      'renames: the log has every state change')
error = failure { migrate(OtherTexts.new) }
equal(state_of(error), '2BP01', 'other texts are rejected')
ok(error.cause.result.error_field(PG::PG_DIAG_MESSAGE_HINT).include?('pawl.definition'), 'other texts: the HINT')

# schema.rb: without the snippet of docs/drivers.md it has the log
def schema_rb
  stream = StringIO.new
  ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection, stream)
  stream.string
end
ok(schema_rb.include?('orders_transitions_log'), 'schema.rb has the log', schema_rb)
ActiveRecord::SchemaDumper.ignore_tables += ask("select name from pawl.own_relations() where kind <> 'index'").flatten
rest = schema_rb
ok(!rest.include?('transitions') && rest.include?('create_table "purchases"'),
   'with the snippet it has the table alone', rest)

# structure.sql: rejects writes until the binding is made again, by what pawl.definitions prints
file = Tempfile.new(['structure', '.sql'])
definitions = ask('select pawl.definitions()')[0][0]
system('pg_dump', '--schema-only', '--no-privileges', '--no-owner', '-f', file.path, DATABASE, exception: true)
system('psql', '-X', '-q', '-d', TEST, '-v', 'ON_ERROR_STOP=1', '-f', file.path, out: File::NULL, exception: true)
ActiveRecord::Base.establish_connection(SETTINGS.merge(database: TEST))
error = failure { ask("insert into purchases (phase) values ('new')") }
equal(state_of(error), '42704', 'structure.sql: a write is rejected')
ok(error.cause.result.error_field(PG::PG_DIAG_MESSAGE_HINT).include?('pawl.definitions'),
   'structure.sql: the HINT says what to run', error.message)
ActiveRecord::Base.connection.execute(definitions)
ask("insert into purchases (phase) values ('new')")
equal(state_of(failure { ask("update purchases set phase = 'sent'") }), 'PW001', 'structure.sql: then it is enforced')
equal(ask("select problem, detail from pawl.verify('purchases')"), [], 'structure.sql: and logged')
equal(ask('select pawl.definitions()')[0][0], definitions, 'structure.sql: by the same definitions')
ActiveRecord::Base.connection_pool.disconnect!
end_tests
