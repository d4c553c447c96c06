------------------------------ MODULE amounts ------------------------------
\* An amount that is held in a counter with a limit: credits that a request may need, tickets in a basket.
\*
\* Each shard has a count, a share, and what of its count is held. A record says what was held, in which shards, and what
\* became of it. One commit makes the record and takes the amount; another finishes both. Callers repeat what got no
\* answer, on any process. Commits arrive late or never. README.md says how to run this, and what is left out.
\*
\* As in limits.tla, a commit carries the documents that nobody has written since it read them ("fresh"), and its
\* condition holds while all that it names ("on") are among them.
EXTENDS Integers, FiniteSets

CONSTANTS
  Scenario, \* which requests there are
  Off       \* the rule that is left out, or "none"

Rule(name) == Off # name

----------------------------------------------------------------------------
\* The scenarios. All requests that name a hold name the same one.

Reserve(n) == [kind |-> "reserve", n |-> n]
Settle(n) == [kind |-> "settle", n |-> n]
End == [kind |-> "end", n |-> 0]       \* its caller gives it back
Expire == [kind |-> "expire", n |-> 0] \* somebody ends what is over
Take(n) == [kind |-> "take", n |-> n]
Give(n) == [kind |-> "give", n |-> n]
Lower(n) == [kind |-> "lower", n |-> n]

Asked ==
  CASE Scenario = "reserve" -> [hold |-> Reserve(2), again |-> Reserve(2), back |-> End]
    [] Scenario = "settle"  -> [less |-> Settle(1), all |-> Settle(2), expire |-> Expire]
    [] Scenario = "more"    -> [more |-> Settle(2), again |-> Settle(2), one |-> Take(1)]
    [] Scenario = "give"    -> [back |-> Give(1), none |-> Settle(0), more |-> Settle(2)]
    [] Scenario = "lower"   -> [less |-> Lower(1), more |-> Settle(2), back |-> End]
    [] Scenario = "crowd"   -> [hold |-> Reserve(2), one |-> Take(1), expire |-> Expire]

Requests == DOMAIN Asked
Kind(r) == Asked[r].kind
N(r) == Asked[r].n

Shards == {"0", "1"}
Record == "record"
Docs == Shards \cup {Record}
Limit == IF Scenario = "give" THEN 3 ELSE 2
HeldAtFirst == CASE Scenario = "settle" -> 2 [] Scenario \in {"more", "give", "lower"} -> 1 [] OTHER -> 0
TakenAtFirst == IF Scenario = "give" THEN 1 ELSE 0 \* by callers long gone

RECURSIVE SumOver(_, _)
SumOver(f, S) == IF S = {} THEN 0 ELSE LET x == CHOOSE x \in S : TRUE IN f[x] + SumOver(f, S \ {x})
Sum(f) == SumOver(f, Shards)
Zero == [s \in Shards |-> 0]
Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b
Minus(f) == [s \in Shards |-> -f[s]]
Parts(n, most) == {f \in [Shards -> 0..n] : Sum(f) = n /\ \A s \in Shards : f[s] <= most[s]}

----------------------------------------------------------------------------
VARIABLES
  count, held, share, \* of each shard
  rec,                \* the hold's record: "none" (no document), "fence" (it stands in the way), "held", "settled", "ended"
  due,                \* the time of the hold is over
  net,                \* commits that may still be applied
  req,                \* request -> where it is, and what it knows
  landed,             \* history: how often a commit of the request was applied
  made, ends,         \* history: how often the hold was made, and finished
  full,               \* history: requests that had no room at some moment since they were made
  wrong               \* history: a request was refused that had been done, by itself or when it came before

docs == <<count, held, share, rec, due>>
history == <<landed, made, ends, wrong>>
vars == <<docs, net, req, history, full>>

NoRecord == [state |-> "none", amount |-> 0, parts |-> Zero, used |-> 0]
Nothing == [read |-> FALSE, looked |-> FALSE, fresh |-> {}, count |-> Zero, held |-> Zero, share |-> Zero, rec |-> NoRecord, over |-> FALSE]

Init ==
  /\ share \in {f \in [Shards -> 0..Limit] : Sum(f) = Limit /\ f["0"] <= f["1"]} \* the shards are alike
  /\ held \in {f \in [Shards -> 0..Limit] : Sum(f) = HeldAtFirst /\ \A s \in Shards : f[s] <= share[s]}
  /\ \E own \in {f \in [Shards -> 0..Limit] : Sum(f) = TakenAtFirst} :
       count = [s \in Shards |-> held[s] + own[s]] /\ \A s \in Shards : count[s] <= share[s]
  /\ rec = IF HeldAtFirst = 0 THEN NoRecord ELSE [state |-> "held", amount |-> HeldAtFirst, parts |-> held, used |-> 0]
  /\ due = FALSE /\ net = {}
  /\ req = [r \in Requests |-> [at |-> "idle", says |-> 0, knows |-> Nothing]]
  /\ landed = [r \in Requests |-> 0] /\ made = IF HeldAtFirst = 0 THEN 0 ELSE 1
  /\ ends = 0 /\ full = {} /\ wrong = FALSE

\* How much room a request needs, by a record: a settle for more needs what is beyond the hold.
Needs(r, k) == IF Kind(r) = "settle" THEN Max(0, N(r) - k.amount) ELSE N(r)

\* Each step notes for whom there is no room after it. What is over is room for all but its own settle.
HasRoom(r) ==
  LET over == IF due /\ rec.state = "held" /\ Kind(r) # "settle" THEN rec.amount ELSE 0
  IN CASE Kind(r) = "give" -> Sum(count) - Sum(held) >= N(r)
       [] OTHER -> Sum(share) - Sum(count) + over >= Needs(r, rec)
Watch == full' = full \cup {r \in Requests : req'[r].at \in {"open", "sent", "doubt"} /\ ~HasRoom(r)'}

Go(r, at, says) == req' = [req EXCEPT ![r] = [at |-> at, says |-> says, knows |-> Nothing]]
Same == UNCHANGED <<docs, net, history>>

----------------------------------------------------------------------------
\* A request is made, or made again. Who names a hold to finish it reads its record.

NamesHold(r) == Kind(r) \in {"settle", "end", "expire"}

Ask(r) ==
  /\ req[r].at = "idle"
  /\ Kind(r) = "expire" => (rec.state = "held" /\ due)
  /\ req' = [req EXCEPT ![r].at = "open"]
  /\ Same /\ Watch

Read(r) ==
  /\ req[r].at = "open" /\ NamesHold(r) /\ ~req[r].knows.read
  /\ req' = [req EXCEPT ![r].knows = [@ EXCEPT !.read = TRUE, !.rec = rec, !.fresh = @ \cup {Record}]]
  /\ Same /\ Watch

\* One read of all shards at one time, and of the holds that are over as of that time.
Look(r) ==
  LET k == req[r].knows IN
  /\ req[r].at = "open" /\ ~k.looked
  /\ CASE Kind(r) = "settle" -> k.read /\ k.rec.state = "held" /\ N(r) > k.rec.amount
       [] OTHER -> ~NamesHold(r)
  /\ req' = [req EXCEPT ![r].knows = [@ EXCEPT !.looked = TRUE, !.count = count, !.held = held, !.share = share,
                                        !.over = due /\ rec.state = "held",
                                        !.fresh = @ \cup Shards \cup IF Kind(r) = "reserve" THEN {Record} ELSE {}]]
  /\ Same /\ Watch

----------------------------------------------------------------------------
\* What a request can commit, by what it knows: by how much it changes the shards, and what the record is then.

Change(c, h, s, record) == [count |-> c, held |-> h, share |-> s, rec |-> record]
Unwritten == [state |-> "same", amount |-> 0, parts |-> Zero, used |-> 0]

Room(k) == [s \in Shards |-> k.share[s] - k.count[s]]
Fitting(k, n) ==
  LET room == Room(k) one == {s \in Shards : room[s] >= n}
  IN IF one # {} THEN {[Zero EXCEPT ![s] = n] : s \in one} ELSE Parts(n, room)

\* What comes off the shards of a hold, but for what was used of it: in their order.
Off0(k, back) == Min(back, k.parts["0"])
Freed(k, used) ==
  LET back == Max(0, k.amount - used)
  IN [s \in Shards |-> IF s = "0" THEN -Off0(k, back) ELSE -(back - Off0(k, back))]

\* Where a hold is, as its record says, or anywhere if none says that.
Places(k) == IF Rule("the record says in which shards") THEN {k.parts} ELSE {f \in [Shards -> 0..k.amount] : Sum(f) = k.amount}

Plans(r) ==
  LET k == req[r].knows IN
  CASE Kind(r) = "reserve" ->
         {Change(f, f, Zero, [state |-> "held", amount |-> N(r), parts |-> f, used |-> 0]) : f \in Fitting(k, N(r))}
    [] Kind(r) = "take" -> {Change(f, Zero, Zero, Unwritten) : f \in Fitting(k, N(r))}
    [] Kind(r) = "give" ->
         LET own == IF Rule("nobody else gives back what is held") THEN [s \in Shards |-> k.count[s] - k.held[s]] ELSE k.count
         IN {Change(Minus(f), Zero, Zero, Unwritten) : f \in Parts(N(r), own)}
    [] Kind(r) = "lower" -> {Change(Zero, Zero, Minus(f), Unwritten) : f \in Parts(N(r), Room(k))}
    [] k.rec.state \in {"none", "fence"} -> {Change(Zero, Zero, Zero, [k.rec EXCEPT !.state = "ended"])}
    [] Kind(r) \in {"end", "expire"} ->
         {Change(Minus(p), Minus(p), Zero, [k.rec EXCEPT !.state = "ended", !.parts = Zero]) : p \in Places(k.rec)}
    [] OTHER ->
         LET settled == [k.rec EXCEPT !.state = "settled", !.used = N(r), !.parts = Zero]
             more == IF N(r) <= k.rec.amount THEN {Zero} ELSE Fitting(k, N(r) - k.rec.amount)
         IN {Change([s \in Shards |-> f[s] + Freed([k.rec EXCEPT !.parts = p], N(r))[s]], Minus(p), Zero, settled) : f \in more, p \in Places(k.rec)}

\* The documents that a commit is on condition of. What only makes room names no shard.
On(r, p) ==
  {s \in Shards : /\ Kind(r) \notin {"end", "expire"}
                  /\ Kind(r) # "settle" \/ Rule("a settle of more is on condition of the shards")
                  /\ CASE Kind(r) = "settle" -> p.count[s] > 0
                       [] OTHER -> p.count[s] # 0 \/ p.share[s] # 0}
  \cup (IF NamesHold(r) /\ Rule("an end is on condition of the record") /\ req[r].knows.rec.state # "none" THEN {Record} ELSE {})

\* What wants that there is no record: the commit that makes one.
WantsNone(r) ==
  \/ Kind(r) = "reserve" /\ Rule("a hold is on condition that it has no record")
  \/ NamesHold(r) /\ req[r].knows.rec.state = "none"

Live(commits) == {c \in commits : c.on \subseteq c.fresh}

\* Whether a request that names the hold has something to commit. One that nobody held is ended, so that nobody will.
ToDo(r) ==
  LET k == req[r].knows IN
  CASE ~NamesHold(r) -> k.looked
    [] Kind(r) = "expire" -> k.read /\ k.rec.state = "held"
    [] k.rec.state \in {"none", "fence"} -> k.read /\ Rule("an end of an unknown hold leaves a record")
    [] OTHER -> k.read /\ k.rec.state = "held" /\ (Kind(r) = "settle" /\ N(r) > k.rec.amount => k.looked)

Send(r) ==
  /\ req[r].at = "open" /\ ToDo(r)
  /\ \E p \in Plans(r) :
       net' = Live(net \cup {[r |-> r, count |-> p.count, held |-> p.held, share |-> p.share, rec |-> p.rec,
                              on |-> On(r, p), none |-> WantsNone(r), fresh |-> req[r].knows.fresh]})
  /\ req' = [req EXCEPT ![r].at = "sent", ![r].says = 0, ![r].knows = Nothing]
  /\ UNCHANGED <<docs, history>> /\ Watch

----------------------------------------------------------------------------
\* Commits arrive: all of one is applied, or nothing.

Written(c) ==
  {s \in Shards : c.count[s] # 0 \/ c.held[s] # 0 \/ c.share[s] # 0} \cup (IF c.rec.state = "same" THEN {} ELSE {Record})

\* A record that stands in the way is replaced on condition of its version.
Allowed(c) == c.none => rec.state = "none" \/ (rec.state = "fence" /\ Kind(c.r) = "reserve" /\ Record \in c.fresh)

Apply(c) ==
  LET shards == Rule("record and shards are one commit") \/ ~NamesHold(c.r) IN
  /\ c \in Live(net) /\ Allowed(c)
  /\ count' = IF shards THEN [s \in Shards |-> count[s] + c.count[s]] ELSE count
  /\ held' = IF shards THEN [s \in Shards |-> held[s] + c.held[s]] ELSE held
  /\ share' = [s \in Shards |-> share[s] + c.share[s]]
  /\ rec' = IF c.rec.state = "same" THEN rec ELSE c.rec
  /\ due' = (due /\ rec'.state = "held")
  /\ made' = made + IF c.rec.state = "held" THEN 1 ELSE 0
  /\ ends' = ends + IF c.rec.state \in {"settled", "ended"} /\ rec.state # "none" /\ rec.state # "fence" THEN 1 ELSE 0
  /\ landed' = [landed EXCEPT ![c.r] = Min(2, @ + 1)]
  /\ net' = {d \in Live({[d EXCEPT !.fresh = @ \ Written(c)] : d \in net}) : ~(d.r = c.r /\ d.none)}
  /\ req' = [r \in Requests |-> [req[r] EXCEPT !.knows.fresh = @ \ Written(c)]]
  /\ UNCHANGED wrong /\ Watch

\* How a request ends that has finished the hold, or found it finished.
Told(r, k) ==
  CASE k.state = "settled" -> Go(r, "settled", IF Rule("the answer comes from the record") \/ Kind(r) # "settle" THEN k.used ELSE N(r))
    [] OTHER -> Go(r, "ended", 0)

\* The answer to a commit comes, or none does. Without one, a request that finishes a hold is made again, and reads the record.
Answer(r) ==
  /\ req[r].at = "sent" /\ ~\E c \in net : c.r = r
  /\ CASE landed[r] = 0 -> Go(r, IF Kind(r) = "reserve" THEN "doubt" ELSE "idle", 0) \* its condition failed
       [] Kind(r) = "expire" -> Go(r, "idle", 0)
       [] Kind(r) = "settle" /\ rec.state # "ended" -> Go(r, "settled", N(r))
       [] NamesHold(r) -> Go(r, "ended", 0)
       [] OTHER -> Go(r, "ok", 0)
  /\ Same /\ Watch

Doubt(r) ==
  /\ req[r].at = "sent"
  /\ Go(r, IF Kind(r) = "reserve" THEN "doubt" ELSE IF NamesHold(r) THEN "idle" ELSE "unknown", 0)
  /\ Same /\ Watch

\* Who reserved and got no answer reads the record. If there is none, it makes one that stands in the way: a commit that is
\* still under way fails. Then it may say that nothing was held.
Fence(r) ==
  /\ req[r].at = "doubt"
  /\ IF rec.state \in {"none", "fence"}
     THEN /\ Go(r, "failed", 0)
          /\ IF Rule("a commit in doubt is fenced")
             THEN /\ rec' = [NoRecord EXCEPT !.state = "fence"]
                  /\ net' = IF Rule("a fence changes something") \/ rec.state = "none"
                            THEN Live({[c EXCEPT !.fresh = @ \ {Record}] : c \in net})
                            ELSE net
             ELSE UNCHANGED <<rec, net>>
          /\ UNCHANGED <<count, held, share, due, history>>
     ELSE /\ Go(r, IF rec.state = "ended" THEN "ended" ELSE "ok", 0)
          /\ Same
  /\ Watch

\* A process dies. Its caller makes the request again elsewhere, as the other one of the scenario.
Die(r) ==
  /\ Kind(r) = "reserve" /\ req[r].at \in {"sent", "doubt"}
  /\ Go(r, "dead", 0)
  /\ Same /\ Watch

----------------------------------------------------------------------------
\* Without a plan a request is refused, unless a hold was over: then that is ended first. What it names may have been done
\* meanwhile, when it came before: the record says so, after the look.
Refuse(r) ==
  LET k == req[r].knows
      over == IF Rule("what was over at the time of the look") THEN k.over ELSE due /\ rec.state = "held"
      done == rec.state # (IF Kind(r) = "settle" THEN "held" ELSE "none") /\ ~(Kind(r) = "reserve" /\ rec.state = "fence")
  IN
  /\ req[r].at = "open" /\ Kind(r) # "expire" /\ ToDo(r) /\ Plans(r) = {}
  /\ over /\ Rule("what is over is ended before a refusal") => Kind(r) \in {"settle", "give", "lower"}
  /\ IF Kind(r) \in {"settle", "reserve"} /\ done /\ Rule("a refusal reads the record after the look")
     THEN Go(r, IF Kind(r) = "reserve" THEN "doubt" ELSE "idle", 0) /\ UNCHANGED wrong
     ELSE Go(r, "refused", 0) /\ wrong' = (wrong \/ (Kind(r) \in {"settle", "reserve"} /\ done /\ (rec.state = "held" \/ rec.used = N(r))))
  /\ UNCHANGED <<docs, net, landed, made, ends>> /\ Watch

\* It looks again, after what was over was ended.
LookAgain(r) ==
  /\ req[r].at = "open" /\ req[r].knows.over /\ Plans(r) = {} /\ ToDo(r)
  /\ Go(r, "idle", 0)
  /\ Same /\ Watch

\* The hold is finished already, or there was none.
Tell(r) ==
  LET k == req[r].knows IN
  /\ req[r].at = "open" /\ NamesHold(r) /\ k.read
  /\ \/ ~ToDo(r) /\ k.rec.state # "held"
     \/ Kind(r) = "settle" /\ due /\ ~Rule("ended is answered once the record says so")
  /\ IF Kind(r) = "expire" THEN Go(r, "idle", 0) ELSE Told(r, k.rec)
  /\ Same /\ Watch

\* TTL takes the record of a hold that is finished, when nobody asks for it any more and nothing is under way: then nothing
\* follows. Without its rules it takes one earlier, or that of a hold.
Waits(r) == req[r].at \in {"idle", "open", "sent", "doubt"} /\ Kind(r) \in {"reserve", "settle", "end"}
Gone ==
  /\ CASE rec.state = "held" -> due /\ ~Rule("TTL takes no open hold")
       [] rec.state = "none" -> FALSE
       [] OTHER -> Rule("records stay long enough") => net = {} /\ ~\E r \in Requests : Waits(r)
  /\ IF rec.state # "held" /\ Rule("records stay long enough") THEN UNCHANGED <<rec, net, req>>
     ELSE /\ rec' = NoRecord
          /\ net' = Live({[c EXCEPT !.fresh = @ \ {Record}] : c \in net})
          /\ req' = [r \in Requests |-> [req[r] EXCEPT !.knows.fresh = @ \ {Record}]]
  /\ UNCHANGED <<count, held, share, due, history>> /\ Watch

Due ==
  /\ rec.state = "held" /\ ~due /\ due' = TRUE
  /\ UNCHANGED <<count, held, share, rec, net, req, history>> /\ Watch

----------------------------------------------------------------------------
Next ==
  \/ \E r \in Requests : \/ Ask(r) \/ Read(r) \/ Look(r) \/ Send(r) \/ Answer(r) \/ Doubt(r) \/ Fence(r) \/ Die(r)
                         \/ Refuse(r) \/ LookAgain(r) \/ Tell(r)
  \/ \E c \in net : Apply(c)
  \/ Due
  \/ Gone

Swept == Rule("somebody looks for holds")
Fair == \A r \in {q \in Requests : Kind(q) = "expire" /\ Swept} :
          /\ WF_vars(Ask(r) \/ Read(r) \/ Send(r) \/ Answer(r) \/ Tell(r))
          /\ WF_vars(\E c \in net : c.r = r /\ Apply(c))

Spec == Init /\ [][Next]_vars /\ Fair

----------------------------------------------------------------------------
\* Never more than there is, and what is held is counted.
NoOversell == \A s \in Shards : 0 <= held[s] /\ held[s] <= count[s] /\ count[s] <= share[s]

\* The shards count what was taken, what is held, and what was used of what was held.
Exact ==
  LET all(kind) == SumOver([r \in Requests |-> landed[r] * N(r)], {r \in Requests : Kind(r) = kind})
      hold == CASE rec.state = "held" -> rec.amount [] rec.state = "settled" -> rec.used [] OTHER -> 0
  IN /\ Sum(count) = TakenAtFirst + all("take") - all("give") + hold
     /\ Sum(held) = IF rec.state = "held" THEN rec.amount ELSE 0
     /\ Sum(share) = Limit - all("lower")

\* A hold is made once, and finished once.
Once == made <= 1 /\ ends <= 1

\* All answers about its end are the same, and true for good.
OneAnswer == \A r \in Requests :
  /\ req[r].at = "settled" => rec.state = "settled" /\ rec.used = req[r].says
  /\ (req[r].at = "ended" /\ Kind(r) # "reserve") => rec.state = "ended"
  /\ (req[r].at = "ok" /\ Kind(r) = "reserve") => made = 1
  /\ req[r].at = "failed" => landed[r] = 0

\* Between a refused request and its answer was a moment without room for it, and it had not been done.
NoWrongRefusal == ~wrong /\ \A r \in Requests : req[r].at = "refused" => r \in full /\ landed[r] = 0

\* A hold whose time is over ends.
HoldsEnd == (rec.state = "held" /\ due) ~> ~(rec.state = "held" /\ due)
=============================================================================
