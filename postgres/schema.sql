-- What locker keeps in a PostgreSQL database (14 or later), and all that it does there.
--
-- The package runs this file by itself when it finds nothing of it, if its user may create schemas. By
-- hand, for users who may not:
--
--     psql -v schema=locker -v persistence=unlogged -f schema.sql
--     grant usage on schema locker to <user>;
--
-- persistence is "unlogged", or, for locker.Durable, nothing: psql -v persistence= -v schema=locker_durable.
-- A user needs no more than usage of the schema: the functions run with the rights of who made them.
-- To run the file again is harmless. What a build from before the first tag has made has to be dropped first.

begin;
select pg_advisory_xact_lock(hashtextextended('locker: create schema', 0));
create schema if not exists :"schema";
set local search_path = :"schema", pg_catalog, pg_temp; -- kept by the functions: nobody puts tables of theirs before
set local client_min_messages = warning;

-- The queues: one claim is one row. The queue of a name is its rows in the order of their tickets.
create :persistence table if not exists claim (
  id        uuid primary key,
  name      bytea       not null,
  ticket    bigint      not null,               -- drawn when it joined
  weight    int         not null,
  max       int         not null,               -- the limit: "The one rule" in package driver
  spare     int         not null,
  ttl       bigint      not null,               -- milliseconds
  owner     bytea       not null,
  token     bigint,                             -- null while it waits
  renewable boolean     not null default true,  -- false: released, but taken for a while yet
  since     timestamptz not null,               -- when it was granted or, if it waits, joined
  until     timestamptz not null,               -- when it counts as gone, if nothing more is heard of it
  listener  bigint                              -- who tells a waiter of its grant: see passed_over
);
create index if not exists claim_queue on claim (name, ticket);

-- Claims that were given up while a request of them might have been on its way.
create :persistence table if not exists given_up (
  id    uuid primary key,
  until timestamptz not null
);

-- One row, which is not there when the tables above have lost theirs: a crash of the server and a
-- failover empty unlogged tables.
create :persistence table if not exists epoch (
  one          boolean primary key default true check (one),
  server_start timestamptz not null,
  claims       oid not null,                    -- table claim, which is another one when a dump was restored
  quiet_until  timestamptz not null,            -- nothing is granted before
  quiet_for    interval    not null             -- how long it was until then
);

-- How long claims may last of which a crash leaves nothing: a holder whose row is lost may go on for so
-- long. This table is never unlogged.
create table if not exists ttl_in_use (
  ttl   bigint primary key,
  until timestamptz not null                    -- such claims are made until then
);

-- Tickets and tokens. A step leaves room for 1,023 spare tokens, and is less than the 1,024 values that
-- begin_epoch counts for a microsecond: so the sequence does not run ahead of the time.
create sequence if not exists serial increment by 1024 cache 1;

create or replace function version() returns int language sql immutable as 'select 1';

create or replace function micros(t timestamptz) returns bigint language sql stable as
  'select (extract(epoch from t) * 1000000)::bigint';

create or replace function millis(n bigint) returns interval language sql immutable as
  $$ select n * interval '1 millisecond' $$;

-- Returns for how long a waiter is kept to which nobody listens, and which has not asked meanwhile. Its Locker asks twice in
-- that time at least.
create or replace function kept_for(p_ttl bigint) returns interval language sql immutable as
  'select millis(greatest(p_ttl, 1000))';

-- Waits for the name, until the transaction ends; returns what time it is then. Everything that
-- changes a queue begins with it. Each statement that follows has to see what others have committed.
create or replace function lock_name(p_name bytea) returns timestamptz language plpgsql as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise 'locker needs the isolation level "read committed", not "%"', current_setting('transaction_isolation')
      using errcode = 'object_not_in_prerequisite_state', hint = 'see default_transaction_isolation';
  end if;
  perform pg_advisory_xact_lock(hashtextextended(encode(p_name, 'hex'), 'claim'::regclass::oid::bigint));
  return clock_timestamp();
end $$;

-- Makes sure that ttl_in_use knows of claims that last so long, also of one that waits without asking again and is granted
-- after a minute. That is written once in an hour, and to the disk before anything is granted.
create or replace function remember(p_ttl bigint) returns void language plpgsql as $$
begin
  if not exists (select from ttl_in_use where ttl >= p_ttl and until > clock_timestamp() + millis(p_ttl) + interval '2 minutes') then
    perform set_config('synchronous_commit', 'on', true)
      where current_setting('synchronous_commit') = 'off';
    insert into ttl_in_use values (p_ttl, clock_timestamp() + millis(p_ttl) + interval '1 hour')
      on conflict (ttl) do update set until = excluded.until;
  end if;
end $$;

-- Returns from when on something may be granted. After each start of the server, and when a dump was
-- restored, the sequence is set to the time at least, because that of a standby or a dump may be behind. If
-- the queues are lost, nothing is granted before the longest holding that may be among them is over.
create or replace function begin_epoch() returns timestamptz language plpgsql as $$
declare
  quiet timestamptz;
  start timestamptz;
begin
  select quiet_until into quiet from epoch where server_start = pg_postmaster_start_time() and claims = 'claim'::regclass
    and quiet_until <= clock_timestamp() + quiet_for;
  if found then return quiet; end if;
  lock table epoch in share row exclusive mode;
  delete from epoch where claims <> 'claim'::regclass;
  update epoch set quiet_until = least(quiet_until, clock_timestamp() + quiet_for) -- the clock may have been set back
    returning quiet_until, server_start into quiet, start;
  if start = pg_postmaster_start_time() then return quiet; end if;
  perform setval('serial', greatest((select last_value from serial), micros(clock_timestamp()) * 1024));
  if start is null then
    insert into epoch (server_start, claims, quiet_until, quiet_for)
      select pg_postmaster_start_time(), 'claim'::regclass, coalesce(clock_timestamp() + millis(max(ttl)), to_timestamp(0)),
        millis(coalesce(max(ttl), 0)) from ttl_in_use where until > clock_timestamp()
      returning quiet_until into quiet;
  else
    update epoch set server_start = pg_postmaster_start_time();
  end if;
  return quiet;
end $$;

-- Reports whether a waiter is gone. Each connection that listens has an advisory lock with the number of
-- its channel for itself.
create or replace function passed_over(c claim, p_moment timestamptz) returns boolean language plpgsql as $$
begin
  return c.until <= p_moment or c.listener is not null and pg_try_advisory_xact_lock_shared(c.listener);
end $$;

create or replace function tell(p_listener bigint, p_news text) returns void language plpgsql as $$
begin
  if p_listener is not null then
    perform pg_notify('locker_' || p_listener, p_news);
  end if;
end $$;

-- Tells the first waiter of a name to ask again if a holding was released, but is kept for a while yet: it may end sooner than
-- the waiter knows.
create or replace function tell_first(p_name bytea, p_moment timestamptz) returns void language plpgsql as $$
declare
  first claim;
begin
  select * into first from claim c
    where name = p_name and token is null and not passed_over(c, p_moment) order by ticket limit 1;
  if exists (select from claim where name = p_name and token is not null and not renewable) then
    perform tell(first.listener, format('look %s', first.id));
  end if;
end $$;

-- Holds the queue of a name to the rule: who is gone is removed, and a claim is granted when its weight
-- and the weights of all claims ahead of it are together no more than its limit. It goes no further than a
-- claim could be granted that waits, or asks: p_max is the limit of one that asks, or 0. Returns the weight
-- of the whole queue, or of so much of it that nothing fits behind.
create or replace function settle(p_name bytea, p_moment timestamptz, p_max int) returns bigint language plpgsql as $$
declare
  c            claim;
  ahead        bigint  := 0;
  greatest_max int;
  kept         boolean; -- a holding was released, but not yet removed
  granted      boolean := false;
begin
  select greatest(p_max, max(q.max) filter (where q.token is null)), bool_or(not q.renewable)
    into greatest_max, kept from claim q where name = p_name;
  for c in select * from claim where name = p_name order by ticket loop
    if c.token is null then
      if passed_over(c, p_moment) then
        delete from claim where id = c.id;
        continue;
      end if;
      if ahead + c.weight <= c.max and begin_epoch() <= p_moment then
        update claim set token = nextval('serial'), since = p_moment, until = p_moment + millis(ttl)
          where id = c.id returning * into c;
        granted := true;
        perform tell(c.listener, format('granted %s %s %s %s', c.id, c.token, c.spare, micros(p_moment)));
      end if;
    elsif c.until <= p_moment then
      delete from claim where id = c.id and until <= p_moment; -- not if it was renewed just now
      continue when found or not exists (select from claim where id = c.id);
    elsif c.until > clock_timestamp() + millis(c.ttl) then -- not p_moment: it may have been renewed since then
      update claim set until = clock_timestamp() + millis(ttl) where id = c.id; -- the clock was set back
    end if;
    ahead := ahead + c.weight;
    exit when ahead >= greatest_max;
  end loop;
  if kept and granted then perform tell_first(p_name, p_moment); end if; -- another is the first now
  return ahead;
end $$;

-- Takes the name if the claim fits at the end of its queue, or else, if asked to, joins the queue. To send
-- it again for the same claim is harmless. Answers by state:
--
--   granted   token, spare
--   waits     first_end: within so many milliseconds no holding ends, unless by a release, not even that of one
--             who waits before it, is granted the name next, and is dead; and no waiter without a listener is over;
--             first: no other waits before it
--   taken     the same for a claim that does not wait
--   given up  it was released before
--   late      the request came after p_latest, by the server's time in microseconds
create or replace function acquire(
  p_name bytea, p_id uuid, p_weight int, p_max int, p_spare int, p_ttl bigint, p_owner bytea,
  p_latest bigint, p_wait boolean, p_listener bigint,
  out state text, out server_time bigint, out token bigint, out spare int, out first_end bigint, out first boolean
) language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
  moment   timestamptz := lock_name(p_name);
  quiet    timestamptz := begin_epoch();
  patience interval := case when p_listener is null then kept_for(p_ttl) else interval '1 minute' end;
  ahead    bigint;
  place    bigint;
  c        claim;
begin
  server_time := micros(moment);
  state := case when server_time > p_latest then 'late' when p_wait then 'waits' else 'taken' end;
  if state = 'late' then return; end if;
  perform remember(p_ttl);
  if exists (select from given_up where id = p_id) then
    state := 'given up';
    return;
  end if;
  select * into c from claim where id = p_id;
  if found and c.token is null and (c.listener is distinct from p_listener or c.until < moment + patience / 2) then
    update claim set listener = p_listener, until = moment + patience where id = p_id;
  end if;
  ahead := settle(p_name, moment, p_max);
  if c.id is not null then
    update claim set until = clock_timestamp() + millis(ttl)
      where id = p_id and claim.token is not null and renewable returning * into c;
    if found then
      state := 'granted'; token := c.token; spare := c.spare;
      return;
    end if;
    select * into c from claim where id = p_id; -- it may have been over
  end if;
  if c.id is null and ahead + p_weight <= p_max and quiet <= moment then
    state := 'granted'; token := nextval('serial'); spare := least(p_spare, 1023);
    insert into claim values (p_id, p_name, token, p_weight, p_max, spare, p_ttl, p_owner, token, true,
      moment, moment + millis(p_ttl), null);
    return;
  elsif c.id is null and p_wait then
    insert into claim values (p_id, p_name, nextval('serial'), p_weight, p_max, least(p_spare, 1023), p_ttl,
      p_owner, null, true, moment, moment + patience, p_listener);
  end if;
  select ticket into place from claim where id = p_id;
  select least((micros(greatest(min(until) filter (where claim.token is not null), quiet)) - server_time) / 1000,
      min(case when listener is null then (micros(until) - server_time) / 1000 else ttl end)
        filter (where claim.token is null and (listener is not null or until > moment))), -- settle leaves some that are over
    not coalesce(bool_or(claim.token is null), false)
    into first_end, first from claim where name = p_name and (place is null or ticket < place);
end $$;

-- Ends whatever a claim has: its holding, its place in the queue, and, until p_late by the server's time,
-- the effect of requests of it that are still on their way. With p_linger the name stays taken for so many
-- milliseconds. Answers 1 if it held the name, 2 if it waited, and 0 if neither.
create or replace function release(p_name bytea, p_id uuid, p_linger bigint, p_late bigint)
returns int language plpgsql security definer set search_path from current as $$
declare
  moment timestamptz := lock_name(p_name);
  c      claim;
begin
  if p_late >= micros(moment) then
    delete from given_up where until < moment;
    insert into given_up values (p_id, to_timestamp(p_late / 1000000.0) + interval '1 second') on conflict do nothing;
  end if;
  if p_linger > 0 then
    update claim set until = moment + millis(p_linger), ttl = p_linger, renewable = false
      where id = p_id and name = p_name and token is not null and renewable and until > moment;
    if found then
      perform tell_first(p_name, moment);
      return 1;
    elsif exists (select from claim where id = p_id and not renewable and until > moment) then
      return 1; -- as it was told before
    end if;
  end if;
  delete from claim where id = p_id and name = p_name returning * into c;
  perform settle(p_name, moment, 0); -- also where nothing was found: it may have been removed by hand
  if c.id is not null and c.token is null
    and not exists (select from claim where name = p_name and token is null and ticket < c.ticket) then
    perform tell_first(p_name, moment);
  end if;
  return case when c.id is null then 0 when c.token is null then 2 when c.until > moment then 1 else 0 end;
end $$;

-- Confirms holdings, and lengthens those of which a sixth is over and whose ttl is not given as 0.
-- Answers for each that is held how many microseconds are left, and whether somebody waits.
create or replace function renew(p_ids uuid[], p_ttls bigint[])
returns table (held uuid, time_left bigint, wanted boolean)
language plpgsql security definer set search_path from current as $$
begin
  perform remember(max(t)) from unnest(p_ttls) t having max(t) > 0;
  update claim c set until = clock_timestamp() + millis(g.ttl)
    from unnest(p_ids, p_ttls) g (id, ttl)
    where c.id = g.id and g.ttl > 0 and c.token is not null and c.renewable and c.until > clock_timestamp()
      and c.until not between clock_timestamp() + millis(g.ttl) * 5 / 6 and clock_timestamp() + millis(g.ttl);
  return query
    select c.id, micros(c.until) - micros(clock_timestamp()),
      exists (select from claim w where w.name = c.name and w.token is null)
    from claim c where c.id = any (p_ids) and c.token is not null and c.until > clock_timestamp();
end $$;

-- Gives a holder a smaller weight and grants the name to those for whom that makes room. Answers false if
-- the claim does not hold the name.
create or replace function lighten(p_name bytea, p_id uuid, p_weight int)
returns boolean language plpgsql security definer set search_path from current as $$
declare
  moment timestamptz := lock_name(p_name);
begin
  update claim set weight = least(weight, p_weight)
    where id = p_id and name = p_name and token is not null and until > moment;
  if not found then return false; end if;
  perform settle(p_name, moment, 0);
  return true;
end $$;

-- Answers which of these claims, which wait and to which nobody listens, ought to ask: they have been
-- granted or are gone, or the time of a holder is over. The others are kept.
create or replace function due(p_ids uuid[])
returns table (claim_id uuid) language plpgsql security definer set search_path from current as $$
begin
  update claim set until = clock_timestamp() + kept_for(ttl)
    where id = any (p_ids) and token is null and until < clock_timestamp() + kept_for(ttl) * 2 / 3;
  return query
    select i from unnest(p_ids) i left join claim c on c.id = i and c.token is null
    where c.id is null
      or exists (select from claim h where h.name = c.name and h.token is not null and h.until <= clock_timestamp());
end $$;

-- Shows the queue of a name. It changes nothing.
create or replace function look(p_name bytea)
returns table (claim_id uuid, claim_weight int, claim_limit int, claim_owner bytea, claim_token bigint,
  claim_since bigint, time_left bigint)
language sql stable security definer set search_path from current as $$
  select id, weight, max, owner, token, micros(since), micros(until) - micros(clock_timestamp())
  from claim where name = p_name and until > clock_timestamp() order by ticket
$$;

-- Shows the names that begin with a prefix and are held or waited for.
create or replace function names(p_prefix bytea)
returns setof bytea language sql stable security definer set search_path from current as $$
  select distinct name from claim
  where substring(name from 1 for length(p_prefix)) = p_prefix and until > clock_timestamp()
$$;

-- Removes a claim, whoever made it, and tells it if it waits. Answers as release does.
create or replace function evict(p_name bytea, p_id uuid)
returns int language plpgsql security definer set search_path from current as $$
declare
  moment timestamptz := lock_name(p_name);
  told   bigint := (select listener from claim where id = p_id and name = p_name and token is null);
  answer int := release(p_name, p_id, 0, 0);
begin
  if answer = 2 then
    perform tell(told, format('look %s 0', p_id));
  end if;
  return answer;
end $$;

-- Removes what those left behind who are gone, and in whose names nobody was interested since.
create or replace function sweep() returns void language sql security definer set search_path from current as $$
  delete from given_up where until < clock_timestamp();
  delete from ttl_in_use where until < clock_timestamp() - interval '1 hour';
  delete from claim where id in
    (select id from claim where until < clock_timestamp() - interval '1 minute' for update skip locked);
$$;
commit;
