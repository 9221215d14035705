#!/usr/bin/ruby
# ActiveRecord: a model, and functions by exec_query with its binds.
require 'active_record'
require_relative 'tap'

def raised
  yield
  nil
rescue StandardError => e
  e.class
end

database = 'pawl_clients'
system('psql', '-X', '-q', '-d', database, '-v', 'client=activerecord', '-f', File.join(__dir__, '..', 'fixture.sql'),
       exception: true)
ActiveRecord::Base.establish_connection(
  adapter: 'postgresql', database: database, host: ENV['PGHOST'], port: ENV['PGPORT'], username: ENV['PGUSER'],
  schema_search_path: 'activerecord,public'
)

# The model, as docs/drivers.md shows it; and one without it.
page = File.read(File.join(__dir__, '../../../docs/drivers.md'))
eval(page[/^### ActiveRecord\n.*?^```ruby\n(.*?)^```/m, 1], binding, 'docs/drivers.md')
class PlainOrder < ActiveRecord::Base
  self.table_name = 'orders'
end

def ask(statement, *values)
  type = ActiveRecord::Type::Value.new
  binds = values.map { |value| ActiveRecord::Relation::QueryAttribute.new('', value, type) }
  Order.connection.exec_query(statement, 'SQL', binds).rows[0][0]
end

Order.find(1).update!(state: 'paid')
equal(Order.find(1).state, 'paid', 'a model changes its state')
equal(ask("select pawl.fire('orders', $1, $2)", 1, 'send'), 'sent', 'fire takes an integer key')
equal(ask("select pawl.fire('orders', $1, $2)", '2', 'pay'), 'paid', 'fire takes the text of a key')
equal(ask("select pawl.fire('docs', $1, 'pay')", '6ecd8c99-4036-403d-bf84-cf8400f67836'), 'paid', 'fire takes a UUID')
equal(ask("select pawl.fire('orders', $1, events => $2)", 3, '{pay,send}'), 'sent', 'fire takes a list of events')
equal(ask("select count(*) from pawl.history('orders', $1)", 3), 3, 'history takes a key')
error = begin
  PlainOrder.find(4).update!(state: 'sent')
  nil
rescue ActiveRecord::StatementInvalid => e
  e
end
ok(!error.nil?, 'a rejected state change is a StatementInvalid')
result = error.cause.result
equal([PG::PG_DIAG_SQLSTATE, PG::PG_DIAG_COLUMN_NAME, PG::PG_DIAG_CONSTRAINT_NAME].map { |f| result.error_field(f) },
      %w[23514 state orders_state_machine], 'its SQLSTATE, column and constraint')
ok(error.cause.is_a?(PG::CheckViolation), 'its cause is a PG::CheckViolation', error.cause.class)
ok(result.error_field(PG::PG_DIAG_MESSAGE_HINT).include?('pay'), 'its HINT lists what is possible')
begin
  ask("select pawl.fire('docs', $1, 'pay')", '6ecd8c99-4036-403d-bf84-cf8400f67836')
rescue ActiveRecord::StatementInvalid => e
  equal([e.cause.result.error_field(PG::PG_DIAG_SQLSTATE),
         e.cause.result.error_field(PG::PG_DIAG_MESSAGE_HINT).include?('send')], ['PW001', true],
        'other tables keep the codes, with a HINT')
end
order = Order.find(6)
equal(order.update(state: 'sent'), false, 'with the model of the page, update returns false')
ok(order.errors[:state].first.start_with?('no transition') && order.errors[:state].last.include?('"paid" (pay)'),
   'and the errors of the column have message and HINT', order.errors)
equal(raised { order.save! }, ActiveRecord::RecordInvalid, 'save! raises RecordInvalid')
Order.transaction do
  Order.find(6).update(state: 'sent')
  Order.find(8).update!(state: 'paid')
end
equal(Order.find(8).state, 'paid', 'the transaction around it goes on')
equal(raised { Order.find(9).update(state: 'paid') }, ActiveRecord::StatementInvalid,
      'other constraints are left alone')
equal(Order.create.persisted?, true, 'rows are created as before')
Order.transaction do
  ask('select pawl.set_context(processor => $1)', 'web')
  Order.find(5).update!(state: 'paid')
end
equal(ask("select processor from pawl.history('orders', $1) order by sort_key desc", 5), 'web',
      'the context of a transaction is recorded')
end_tests
