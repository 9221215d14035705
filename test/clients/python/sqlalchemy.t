#!/usr/bin/python3
# SQLAlchemy: a mapped class, and functions by func.
import sqlalchemy as sa
from sqlalchemy.orm import Session, declarative_base

from tap import DATABASE, DOC, end, equal, example, fixture, is_validation, ok, raised

Base = declarative_base()


class Order(Base):
    __tablename__ = "orders"
    id = sa.Column(sa.BigInteger, primary_key=True)
    state = sa.Column(sa.Text)
    note = sa.Column(sa.Text)


fixture("sqlalchemy")
engine = sa.create_engine("postgresql+psycopg2:///" + DATABASE,
                          connect_args={"options": "-c search_path=sqlalchemy,public"})


def set_state(key, state):
    with Session(engine) as session:
        session.get(Order, key).state = state
        session.commit()


set_state(1, "paid")
with Session(engine) as session:
    equal(session.get(Order, 1).state, "paid", "a mapped row changes its state")
    fire = sa.func.pawl.fire
    equal(session.scalar(sa.select(fire("orders", 1, "send"))), "sent", "fire as func takes an integer key")
    equal(session.scalar(sa.select(fire("docs", DOC, "pay"))), "paid", "fire as func takes the text of a UUID")
    equal(session.scalar(sa.text("select pawl.fire('orders', :key, events => :events)"),
                         {"key": 2, "events": ["pay", "send"]}), "sent", "fire takes a list of events")
    equal(session.scalar(sa.text("select count(*) from pawl.history('orders', :key)"), {"key": 2}), 3,
          "history takes a key")
    equal(session.scalar(sa.text("select event from pawl.available('orders', :key)"), {"key": 3}), "pay",
          "available takes a key")
    session.execute(sa.select(sa.func.pawl.set_context("web")))
    session.get(Order, 4).state = "paid"
    session.commit()
    equal(session.scalar(sa.text("select processor from pawl.history('orders', 4) order by sort_key desc")), "web",
          "the context of a transaction is recorded")
error = raised(sa.exc.IntegrityError, lambda: set_state(5, "sent"), "a rejected state change is an IntegrityError")
diag = error.orig.diag
equal((error.orig.pgcode, diag.table_name, diag.column_name, diag.constraint_name),
      ("23514", "orders", "state", "orders_state_machine"), "its SQLSTATE, table, column and constraint")
equal(diag.message_detail[:7], "PW001: ", "its DETAIL begins with the code of pawl")
ok("pay" in diag.message_hint, "its HINT lists what is possible", diag.message_hint)
with Session(engine) as session:
    set_state = example("SQLAlchemy", sqlalchemy=sa)
    set_state(session, session.get(Order, 8), "paid")
    error = raised(ValueError, lambda: set_state(session, session.get(Order, 6), "sent"),
                   "the example of the page makes a validation error")
    is_validation(error, "which")
    raised(sa.exc.IntegrityError, lambda: set_state(session, session.get(Order, 9), "paid"),
           "and leaves other constraints alone")
    session.commit()
with Session(engine) as session:
    equal([session.get(Order, key).state for key in (6, 8, 9)], ["new", "paid", "new"],
          "and the transaction goes on after an error")
    error = raised(sa.exc.DatabaseError, lambda: session.scalar(sa.select(sa.func.pawl.fire("docs", DOC, "pay"))),
                   "other tables keep the codes")
    equal((error.orig.pgcode, "send" in error.orig.diag.message_hint), ("PW001", True), "of class PW, with a HINT")
end()
