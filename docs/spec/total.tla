------------------------------- MODULE total -------------------------------
\* What a counter's document shows: sources, their events, answers, and the commits that show them.
\*
\* The rules are those of internal/book (Show, AsOf, Edit) and of rollup (pacer, refresh). README.md says how to run
\* this, and what is left out.
EXTENDS Integers, FiniteSets

CONSTANTS
  Scenario, \* what happens, and how often
  Off       \* the rule that is left out, or "none"

Rule(name) == Off # name

----------------------------------------------------------------------------
\* How often each thing happens at most.

Never == [writes |-> 0, lost |-> 0, late |-> 0, dies |-> 0, app |-> 0, commands |-> 0]
Bounds ==
  CASE Scenario = "instances" -> [Never EXCEPT !.writes = 2]
    [] Scenario = "crashes"   -> [Never EXCEPT !.writes = 2, !.lost = 1, !.dies = 1]
    [] Scenario = "late"      -> [Never EXCEPT !.writes = 2, !.late = 1]
    [] Scenario = "fields"    -> [Never EXCEPT !.writes = 2, !.lost = 1]
    [] Scenario = "app"       -> [Never EXCEPT !.writes = 1, !.app = 1]
    [] Scenario = "gone"      -> [Never EXCEPT !.writes = 2, !.app = 2]
    [] Scenario = "commands"  -> [Never EXCEPT !.writes = 1, !.commands = 1]
Instances == IF Scenario = "instances" THEN {"a", "b"} ELSE {"a"}
Fields == IF Scenario \in {"fields", "app"} THEN {"f", "g"} ELSE {"f"}

None == -1

VARIABLES
  now,    \* Firestore's clock
  left,   \* how often each thing may still happen
  source, \* field -> what its shards hold
  base,   \* what the total holds beyond them, and since when
  doc,    \* the document: its version, numbers, and our map
  events, \* those that nobody has acknowledged
  inst,   \* instance -> what it remembers, holds, and has begun
  late,   \* commits that are under way
  cmd,    \* the command that has asked
  missed, \* history: fields of which an event was lost, and none came since
  others  \* history: field -> when something else wrote the document, and no answer since; 0 is never

vars == <<now, left, source, base, doc, events, inst, late, cmd, missed, others>>

Nowhere == [there |-> FALSE, ver |-> 0, n |-> [f \in Fields |-> 0], at |-> [f \in Fields |-> None],
            ours |-> [f \in Fields |-> None], mine |-> FALSE]
Empty == [Nowhere EXCEPT !.there = TRUE]
NoBook == [read |-> FALSE, doc |-> Nowhere, base |-> [f \in Fields |-> 0]]
NoFlight == [on |-> FALSE, took |-> {}, book |-> NoBook, base |-> [f \in Fields |-> 0], seen |-> FALSE, at |-> 0,
             asked |-> {}, answer |-> [f \in Fields |-> 0]]
NoInstance == [known |-> NoBook, held |-> {}, flight |-> NoFlight]
NoCommand == [on |-> FALSE, f |-> "f", to |-> 0, ver |-> 0, base |-> 0, n |-> 0, at |-> 0]

Init ==
  /\ now = 1
  /\ left = Bounds
  /\ source = [f \in Fields |-> 0]
  /\ base = [n |-> [f \in Fields |-> 0], ver |-> 1]
  /\ doc = [Empty EXCEPT !.ver = 1, !.at = [f \in Fields |-> 1], !.ours = [f \in Fields |-> 0], !.mine = TRUE]
  /\ events = {} /\ late = {} /\ missed = {}
  /\ inst = [i \in Instances |-> NoInstance]
  /\ cmd = NoCommand
  /\ others = [f \in Fields |-> 0]

Spend(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]
Tick == now' = now + 1

\* As of when a document shows a field, if that is to be believed.
AsOf(d, f) ==
  IF d.at[f] = None THEN None
  ELSE IF Rule("an as of is no later than the document") /\ d.at[f] > d.ver THEN None
  ELSE IF Rule("an as of is believed beside its number") /\ (~d.mine \/ d.ours[f] # d.n[f]) THEN None
  ELSE d.at[f]

\* An event is acknowledged, and nobody brings it again. Other instances may hold it yet.
Ack(i, es, in) == /\ events' = events \ es
                  /\ inst' = [inst EXCEPT ![i] = [in EXCEPT !.held = @ \ es]]

Covered(d, e) == \A f \in e.fields : AsOf(d, f) >= e.at

----------------------------------------------------------------------------
\* Shards change, and events come to instances.

\* One event of a field makes it right, and with it those that nobody knows as of when they are shown.
Known(f) == ~doc.there \/ (doc.mine /\ doc.at[f] # None /\ doc.ours[f] = doc.n[f])

Change(fs) ==
  LET by == IF Scenario = "late" /\ left.writes = 1 THEN -1 ELSE 1 IN
  /\ Spend("writes") /\ Tick
  /\ source' = [f \in Fields |-> IF f \in fs THEN source[f] + by ELSE source[f]]
  /\ events' = events \cup {[fields |-> fs, at |-> now']}
  /\ missed' = missed \ fs
  /\ others' = [f \in Fields |-> IF doc.there /\ (f \in fs \/ ~Known(f)) THEN 0 ELSE others[f]]
  /\ UNCHANGED <<base, doc, inst, late, cmd>>

Lose(e) ==
  /\ Spend("lost")
  /\ \A i \in Instances : e \notin inst[i].held
  /\ events' = events \ {e}
  \* a later one that is on its way makes it right
  /\ missed' = missed \cup {f \in e.fields : ~\E l \in events : f \in l.fields /\ l.at > e.at}
  /\ UNCHANGED <<now, source, base, doc, inst, late, cmd, others>>

Deliver(i, e) ==
  /\ e \notin inst[i].held
  /\ inst' = [inst EXCEPT ![i].held = @ \cup {e}]
  /\ UNCHANGED <<now, left, source, base, doc, events, late, cmd, missed, others>>

\* An event need not wait beside a later one of all its fields.
Supersede(i, e, l) ==
  /\ e \in inst[i].held /\ l \in inst[i].held
  /\ l.at > e.at
  /\ Rule("a later event of all its fields") => e.fields \subseteq l.fields
  /\ Ack(i, {e}, [inst[i] EXCEPT !.flight.took = @ \ {e}])
  /\ UNCHANGED <<now, left, source, base, doc, late, cmd, missed, others>>

Die(i) ==
  /\ Spend("dies")
  /\ inst' = [inst EXCEPT ![i] = NoInstance]
  /\ UNCHANGED <<now, source, base, doc, events, late, cmd, missed, others>>

----------------------------------------------------------------------------
\* A refresh: from memory or with a look, then a question, then a commit.

Begin(i) ==
  /\ ~inst[i].flight.on /\ inst[i].held # {}
  /\ \E remembers \in {TRUE, FALSE} :
       inst' = [inst EXCEPT ![i].known = NoBook,
                            ![i].flight = [NoFlight EXCEPT !.on = TRUE, !.took = inst[i].held, !.base = base.n,
                                                           !.book = IF remembers THEN inst[i].known ELSE NoBook]]
  /\ UNCHANGED <<now, left, source, base, doc, events, late, cmd, missed, others>>

Look(i) ==
  LET fl == inst[i].flight IN
  /\ fl.on /\ ~fl.book.read /\ Tick
  /\ inst' = [inst EXCEPT ![i].flight.book = [read |-> TRUE, doc |-> doc, base |-> IF Rule("the base with the document") THEN base.n ELSE fl.base],
                          ![i].flight.seen = FALSE]
  /\ UNCHANGED <<left, source, base, doc, events, late, cmd, missed, others>>

\* What the document says about events: those that it shows are done; without it, those that had come.
See(i) ==
  LET in == inst[i]
      fl == in.flight
      gone == IF Rule("a missing document covers what had come") THEN fl.took ELSE in.held
      done == IF ~fl.book.doc.there THEN gone ELSE {e \in in.held : Covered(fl.book.doc, e)}
      rest == fl.took \ done
      over == ~fl.book.doc.there \/ rest = {}
  IN
  /\ fl.on /\ fl.book.read /\ ~fl.seen
  /\ Ack(i, done, IF over THEN [in EXCEPT !.flight = NoFlight, !.known = IF fl.book.doc.there THEN fl.book ELSE NoBook]
                  ELSE [in EXCEPT !.flight.seen = TRUE, !.flight.took = rest])
  /\ UNCHANGED <<now, left, source, base, doc, late, cmd, missed, others>>

Wanted(fl) == UNION {e.fields : e \in fl.took} \cup
              {f \in Fields : Rule("what nobody knows is asked") /\ AsOf(fl.book.doc, f) = None}

\* An answer may be shown on a version that is later only in the place of an older one.
Early(fl) == \E f \in fl.asked : LET was == AsOf(fl.book.doc, f) IN was = None /\ fl.at < fl.book.doc.ver

Ask(i) ==
  LET fl == inst[i].flight IN
  /\ fl.on /\ fl.book.read /\ fl.seen
  /\ fl.at = 0 \/ Early(fl) \/ ~Wanted(fl) \subseteq fl.asked
  /\ Tick
  /\ inst' = [inst EXCEPT ![i].flight.at = now', ![i].flight.answer = source, ![i].flight.asked = Wanted(fl)]
  /\ UNCHANGED <<left, source, base, doc, events, late, cmd, missed, others>>

\* The commit of a flight: the fields that it has newer answers of, and how much they grow by.
CommitOf(fl) ==
  LET fs == {f \in fl.asked : AsOf(fl.book.doc, f) < fl.at}
      after == [f \in Fields |-> fl.book.base[f] + fl.answer[f]]
  IN [ver |-> fl.book.doc.ver, at |-> fl.at, fields |-> fs, after |-> after,
      delta |-> [f \in Fields |-> after[f] - fl.book.doc.n[f]]]

Holds(c) == doc.there /\ (Rule("a condition on the version") => doc.ver = c.ver)

Shown(c) ==
  [doc EXCEPT !.ver = now + 1, !.mine = TRUE,
              !.n = [f \in Fields |-> IF f \in c.fields THEN @[f] + c.delta[f] ELSE @[f]],
              !.ours = [f \in Fields |-> IF f \in c.fields THEN c.after[f] ELSE @[f]],
              !.at = [f \in Fields |-> IF f \in c.fields \/ ~Rule("an as of for each field") THEN c.at ELSE @[f]]]

Answered(c) == others' = [f \in Fields |-> IF f \in c.fields /\ c.at > others[f] THEN 0 ELSE others[f]]

Ready(fl) == fl.on /\ fl.book.read /\ fl.seen /\ fl.at > 0 /\ ~Early(fl) /\ Wanted(fl) \subseteq fl.asked

Commit(i) ==
  LET in == inst[i]
      fl == in.flight
      c == CommitOf(fl)
      equal == \A f \in c.fields : c.delta[f] = 0
      done == IF Rule("a question covers what had come") THEN fl.took ELSE in.held
      book == [read |-> TRUE, doc |-> Shown(c), base |-> fl.book.base]
  IN
  /\ Ready(fl)
  /\ IF ~Rule("what is equal is written") /\ equal
     THEN /\ Ack(i, fl.took, [in EXCEPT !.flight = NoFlight, !.known = fl.book])
          /\ UNCHANGED <<now, doc, others>>
     ELSE IF Holds(c)
     THEN /\ Tick /\ doc' = Shown(c) /\ Answered(c)
          /\ Ack(i, done, [in EXCEPT !.flight = NoFlight, !.known = book])
     ELSE /\ inst' = [inst EXCEPT ![i].flight.book = NoBook] \* it reads again
          /\ UNCHANGED <<now, doc, events, others>>
  /\ UNCHANGED <<left, source, base, late, cmd, missed>>

\* A commit whose answer doesn't come; it lands later, or never.
Doubt(i) ==
  LET fl == inst[i].flight IN
  /\ Ready(fl) /\ Spend("late")
  /\ late' = late \cup {CommitOf(fl)}
  /\ inst' = [inst EXCEPT ![i].flight.book = NoBook]
  /\ UNCHANGED <<now, source, base, doc, events, cmd, missed, others>>

Land(c) ==
  /\ late' = late \ {c}
  /\ IF Holds(c) THEN Tick /\ doc' = Shown(c) /\ Answered(c) ELSE UNCHANGED <<now, doc, others>>
  /\ UNCHANGED <<left, source, base, events, inst, cmd, missed>>

----------------------------------------------------------------------------
\* The app does what it likes with its document, and commands set a total.

App(d, fs) ==
  /\ Spend("app") /\ Tick
  /\ doc' = [d EXCEPT !.ver = now']
  /\ others' = [f \in Fields |-> IF f \in fs THEN now' ELSE others[f]]
  /\ UNCHANGED <<source, base, events, inst, late, cmd, missed>>

Apps ==
  \/ App(Nowhere, Fields)
  \/ App(Empty, Fields)
  \/ Scenario = "app" /\ doc.there /\
     \/ App([doc EXCEPT !.n["f"] = 7], {"f"})
     \* a copy of another counter's, and of one whose clock is ahead
     \/ App([doc EXCEPT !.mine = FALSE, !.n = [f \in Fields |-> 7], !.ours = @, !.at = [f \in Fields |-> now + 1]], Fields)
     \/ App([doc EXCEPT !.at = [f \in Fields |-> now + 9]], Fields)

CommandAsks ==
  /\ Spend("commands") /\ doc.there /\ ~cmd.on /\ Tick
  /\ \E to \in {0, 1} : cmd' = [on |-> TRUE, f |-> "f", to |-> to, ver |-> doc.ver, base |-> base.ver, n |-> source["f"], at |-> now']
  /\ UNCHANGED <<source, base, doc, events, inst, late, missed, others>>

CommandEnds ==
  /\ cmd.on /\ cmd' = NoCommand
  /\ IF doc.there /\ doc.ver = cmd.ver /\ base.ver = cmd.base
     THEN /\ Tick
          /\ base' = [n |-> [base.n EXCEPT ![cmd.f] = cmd.to - cmd.n], ver |-> now']
          /\ doc' = IF ~Rule("a command changes the version") /\ doc.n[cmd.f] = cmd.to THEN doc
                    ELSE [doc EXCEPT !.ver = now', !.n[cmd.f] = cmd.to, !.ours[cmd.f] = cmd.to, !.at[cmd.f] = cmd.at]
     ELSE UNCHANGED <<now, base, doc>>
  /\ UNCHANGED <<left, source, events, inst, late, missed, others>>

Next ==
  \/ \E fs \in SUBSET Fields : fs # {} /\ Change(fs)
  \/ \E e \in events : Lose(e)
  \/ \E i \in Instances :
       \/ \E e \in events : Deliver(i, e)
       \/ \E e, l \in inst[i].held : Supersede(i, e, l)
       \/ Die(i) \/ Begin(i) \/ Look(i) \/ See(i) \/ Ask(i) \/ Commit(i) \/ Doubt(i)
  \/ \E c \in late : Land(c)
  \/ Apps \/ CommandAsks \/ CommandEnds

Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
Quiet == events = {} /\ late = {} /\ ~cmd.on /\ \A i \in Instances : ~inst[i].flight.on

\* Once all events are acknowledged, a field shows what its source holds, and what is beyond that: unless an event of it
\* was lost, and none came after, or something else wrote the document after the last one.
Right ==
  Quiet /\ doc.there => \A f \in Fields \ missed : others[f] = 0 => doc.n[f] = base.n[f] + source[f]

=============================================================================
