-- What locker keeps in a MySQL (8.0 or later) or MariaDB (10.6 or later) server, and all that it does there.
--
-- The package runs this file by itself when it finds nothing of it, if its user may create databases and
-- procedures. By hand, for users who may not:
--
--     mariadb -e 'create database if not exists locker'
--     mariadb locker < schema.sql
--     mariadb -e "grant execute on locker.* to <user>"
--
-- A user needs no more than that: the procedures run with the rights of who made them. That one has to be the
-- same user, or must have the privilege CONNECTION ADMIN (MySQL: CONNECTION_ADMIN), so that waiters can be woken;
-- without it they ask four times a second. To run the file again is harmless.
--
-- All times are microseconds since 1970 by the server's clock, or milliseconds where it is said.
delimiter //
set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'//

-- Those who do this at the same time do it one after the other.
do get_lock('locker: create schema', 60)//
drop procedure if exists schema_version//

-- The queues: one claim is one row. The queue of a name is its rows in the order of their tickets.
create table if not exists claim (
  id        binary(16)      not null primary key,
  name      varbinary(1024) not null,
  ticket    bigint          not null,           -- drawn when it joined
  weight    int             not null,
  most      int             not null,           -- the limit: "The one rule" in package driver
  spare     int             not null,
  ttl       bigint          not null,           -- milliseconds
  owner     varbinary(1024) not null,
  token     bigint,                             -- null while it waits
  renewable tinyint         not null default 1, -- 0: released, but taken for a while yet
  stale     tinyint         not null default 0, -- 1: a waiter that ought to ask again
  since     bigint          not null,           -- when it was granted or, if it waits, joined
  expires   bigint          not null,           -- when it counts as gone, if nothing more is heard of it
  listener  bigint,                             -- the number of who tells a waiter of its grant, see ring
  key queue (name, ticket)
) engine = InnoDB row_format = dynamic//

-- Claims that were given up while a request of them might have been on its way.
create table if not exists given_up (
  id      binary(16) not null primary key,
  expires bigint     not null,
  key expires (expires)
) engine = InnoDB//

-- Whoever changes the queue of a name has the row of its slot locked meanwhile. The row has the last ticket or
-- token that was drawn in the slot. There are always 512 rows.
create table if not exists slot (
  n           smallint not null primary key,
  last_number bigint   not null
) engine = InnoDB//
insert ignore into slot (n, last_number)
  with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < 511) select n, 0 from numbers//

-- Begins a transaction at the isolation level that all of them need, whatever the session is set to: each statement
-- sees what others have committed, and no gaps between rows are locked.
drop procedure if exists begin_transaction//
create procedure begin_transaction()
begin
  commit and no chain no release; -- autocommit may be off, completion_type may be "chain"
  set transaction isolation level read committed;
  start transaction;
end//

-- Begins a transaction, waits for the name, and says what time it is then. Everything that changes a queue begins
-- with it.
drop procedure if exists lock_name//
create procedure lock_name(p_name varbinary(1024), out moment bigint)
begin
  declare locked smallint;
  call begin_transaction();
  select n into locked from slot where n = crc32(p_name) % 512 for update;
  if locked is null then
    signal sqlstate '45000' set message_text = 'locker: rows of table slot are missing: run schema.sql again';
  end if;
  set moment = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
end//

-- Draws a ticket or a token: it is greater than all before it, and as great as the time, also when the rows of a
-- server that was behind have taken the place of others. There is room for 1,023 spare tokens above it.
drop procedure if exists draw//
create procedure draw(p_name varbinary(1024), moment bigint, out number bigint)
begin
  update slot set last_number = greatest(last_number + 1024, moment * 1024) where n = crc32(p_name) % 512;
  select last_number into number from slot where n = crc32(p_name) % 512;
end//

-- Wakes the process that listens by this number, and says whether there is one: -1 means that it is not permitted.
-- One that listens has a named lock for as long as its connection lives, and sleeps in hear.
drop procedure if exists ring//
create procedure ring(p_number bigint, out answer int)
begin
  declare session_id bigint unsigned default is_used_lock(concat('locker.', p_number));
  declare continue handler for 1094 set answer = 0; -- it has just gone
  declare continue handler for 1095 set answer = -1;
  set answer = session_id is not null;
  if session_id is not null then
    kill query session_id;
  end if;
end//

drop procedure if exists try_ring//
create procedure try_ring(p_number bigint)
begin
  declare answer int;
  call ring(p_number, answer);
  select answer;
end//

-- Wakes those of a list, after the transaction that has news for them.
drop procedure if exists ring_all//
create procedure ring_all(bells mediumblob)
begin
  declare answer int;
  while bells <> '' do
    call ring(substring_index(bells, ' ', 1), answer);
    set bells = substr(bells, locate(' ', bells) + 1);
  end while;
end//

-- Holds the queue of a name to the rule: who is gone is removed, and a claim is granted when its weight and the
-- weights of all claims ahead of it are together no more than its limit. Says what the whole queue weighs, and adds
-- to bells who is to be woken. It goes no further than a claim could be granted that waits, or asks: p_most is the limit
-- of one that asks, or 0. Rows are changed one by one, by their IDs: a statement that has to search locks rows of
-- other names, too, where the table is small.
drop procedure if exists settle//
create procedure settle(p_name varbinary(1024), moment bigint, p_most int, inout bells mediumblob, out total bigint)
begin
  declare place, last_place, last_listener, first_end, last_start, ahead, c_ttl, c_listener, drawn bigint default 0;
  declare c_weight, c_most, greatest_most, waiting int;
  declare kept, granted tinyint default 0;
  declare c_id binary(16);
  select coalesce(sum(weight), 0), coalesce(sum(token is null), 0), greatest(p_most, coalesce(max(if(token is null, most, 0)), 0)),
      min(expires), max(if(token is null, 0, expires - ttl * 1000)), max(not renewable)
    into total, waiting, greatest_most, first_end, last_start, kept from claim where name = p_name;
  gone: while first_end <= moment do
    set c_id = null;
    select id into c_id from claim where name = p_name and expires <= moment limit 1;
    if c_id is null then
      leave gone;
    end if;
    delete from claim where id = c_id and expires <= moment; -- not if it was renewed just now
  end while;
  set moment = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)); -- no earlier than what was renewed by now
  ahead_of_time: while last_start > moment + 1000000 do -- the clock was set back
    set c_id = null;
    select id into c_id from claim where name = p_name and token is not null and expires - ttl * 1000 > moment + 1000000 limit 1;
    if c_id is null then
      leave ahead_of_time;
    end if;
    select id into c_id from claim where id = c_id for update; -- what time it is counts when the row is locked
    set moment = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    update claim set expires = moment + ttl * 1000 where id = c_id and expires - ttl * 1000 > moment + 1000000;
  end while;
  walk: while waiting > 0 do
    set c_id = null, last_place = place;
    select id, ticket, weight, most, ttl, listener into c_id, place, c_weight, c_most, c_ttl, c_listener
      from claim where name = p_name and token is null and ticket > place order by ticket limit 1;
    if c_id is null then
      leave walk;
    end if;
    select ahead + coalesce(sum(weight), 0) into ahead from claim where name = p_name and ticket >= last_place and ticket < place;
    if ahead >= greatest_most then
      leave walk; -- nothing fits: who is gone keeps its place, because it may connect again
    end if;
    if c_listener is not null and is_used_lock(concat('locker.', c_listener)) is null then
      delete from claim where id = c_id;
      iterate walk;
    end if;
    if ahead + c_weight <= c_most then
      call draw(p_name, moment, drawn);
      update claim set token = drawn, since = moment, expires = moment + c_ttl * 1000 where id = c_id;
      set granted = 1;
      if c_listener <> last_listener then -- else the list ends with it already
        set bells = concat(bells, c_listener, ' '), last_listener = c_listener;
      end if;
    end if;
    if ahead + c_weight >= greatest_most then
      leave walk; -- nothing fits behind it
    end if;
  end while;
  if kept and granted then
    call tell_first(p_name, bells); -- another is the first now
  end if;
  if waiting > 0 or first_end <= moment then
    select coalesce(sum(weight), 0) into total from claim where name = p_name;
  end if;
end//

-- Has the first waiter of a name ask again if a holding was released, but is kept for a while yet: it may end sooner than the
-- waiter knows. Adds to bells who is to be woken.
drop procedure if exists tell_first//
create procedure tell_first(p_name varbinary(1024), inout bells mediumblob)
begin
  declare first_id binary(16);
  declare told bigint;
  if exists (select 1 from claim where name = p_name and not renewable) then
    select id, listener into first_id, told from claim
      where name = p_name and token is null and (listener is null or is_used_lock(concat('locker.', listener)) is not null)
      order by ticket limit 1;
    update claim set stale = 1 where id = first_id;
    set bells = concat(bells, if(told is null, '', concat(told, ' ')));
  end if;
end//

-- Takes the name if the claim fits at the end of its queue, or else, if asked to, joins the queue. To send it
-- again for the same claim is harmless. Answers by state:
--
--   granted   token, spare
--   waits     first_end: within so many milliseconds no holding ends, unless by a release, not even that of one
--             who waits before it, is granted the name next, and is dead; and no waiter without a listener is over.
--             If it fits beside the holders, that is a second earlier for those who wait before it, because the
--             server takes a second to notice that they are gone. first: no other waits before it
--   taken     the same for a claim that does not wait
--   given up  it was released before
--   late      the request came after p_latest
drop procedure if exists acquire//
create procedure acquire(p_name varbinary(1024), p_id binary(16), p_weight int, p_most int, p_spare int, p_ttl bigint,
  p_owner varbinary(1024), p_latest bigint, p_wait tinyint, p_listener bigint)
begin
  declare state varchar(10) default if(p_wait, 'waits', 'taken');
  declare moment, patience, ahead, held, place, drawn, found_token, first_end bigint;
  declare found_spare, waiting_ahead int default 0;
  declare known int default 0;
  declare bells mediumblob default '';
  call lock_name(p_name, moment);
  set patience = if(p_listener is null, greatest(p_ttl, 1000) * 1000, 60000000);
  set known = exists (select 1 from claim where id = p_id);
  if moment > p_latest then
    set state = 'late';
  elseif exists (select 1 from given_up where id = p_id) then
    set state = 'given up';
  else
    if known then
      update claim set listener = p_listener, expires = moment + patience, stale = 0
        where id = p_id and token is null
          and (stale or not listener <=> p_listener or expires < moment + patience div 2);
    end if;
    call settle(p_name, moment, p_most, bells, ahead);
    if known then
      update claim set expires = greatest(expires, moment + ttl * 1000) where id = p_id and token is not null and renewable;
      select token, spare into found_token, found_spare from claim where id = p_id and renewable;
      set known = exists (select 1 from claim where id = p_id); -- it may have been over
    end if;
    if found_token is not null then
      set state = 'granted';
    elseif not known and ahead + p_weight <= p_most then
      call draw(p_name, moment, drawn);
      set state = 'granted', found_token = drawn, found_spare = least(p_spare, 1023);
      insert into claim (id, name, ticket, weight, most, spare, ttl, owner, token, since, expires)
        values (p_id, p_name, drawn, p_weight, p_most, found_spare, p_ttl, p_owner, drawn, moment, moment + p_ttl * 1000);
    elseif not known and p_wait then
      call draw(p_name, moment, drawn);
      insert into claim (id, name, ticket, weight, most, spare, ttl, owner, since, expires, listener)
        values (p_id, p_name, drawn, p_weight, p_most, least(p_spare, 1023), p_ttl, p_owner, moment, moment + patience,
          p_listener);
    end if;
  end if;
  if state in ('waits', 'taken') then
    select ticket into place from claim where id = p_id;
    select coalesce(sum(weight), 0) into held from claim where name = p_name and token is not null;
    select min(case when token is not null or listener is null then (expires - moment) div 1000
                    when held + p_weight <= p_most then greatest(ttl - 1000, 0)
                    else ttl end), coalesce(sum(token is null), 0)
      into first_end, waiting_ahead from claim where name = p_name and (place is null or ticket < place);
  end if;
  commit;
  call ring_all(bells);
  select state, moment, found_token, found_spare, first_end, waiting_ahead = 0;
end//

-- Ends whatever a claim has: its holding, its place in the queue, and, until p_late, the effect of requests of it
-- that are still on their way. With p_linger the name stays taken for so many milliseconds. With
-- p_tell one that waits is woken. Answers 1 if it held the name, 2 if it waited, and 0 if neither.
drop procedure if exists `release`//
create procedure `release`(p_name varbinary(1024), p_id binary(16), p_linger bigint, p_late bigint, p_tell tinyint)
begin
  declare moment, ahead, c_token, c_expires, told bigint;
  declare c_renewable tinyint;
  declare answer int default 0;
  declare bells mediumblob default '';
  call lock_name(p_name, moment);
  if p_late >= moment then
    insert into given_up (id, expires) values (p_id, p_late + 1000000)
      on duplicate key update expires = greatest(expires, p_late + 1000000);
  end if;
  select token, expires, renewable, listener into c_token, c_expires, c_renewable, told
    from claim where id = p_id and name = p_name;
  if p_linger > 0 and c_token is not null and c_expires > moment then
    if c_renewable then
      update claim set expires = moment + p_linger * 1000, ttl = p_linger, renewable = 0 where id = p_id;
      call settle(p_name, moment, 0, bells, ahead);
      call tell_first(p_name, bells);
    end if;
    set answer = 1;
  else
    if c_expires is not null then
      set answer = if(c_token is null, 2, c_expires > moment);
      set bells = if(p_tell and answer = 2 and told is not null, concat(told, ' '), '');
      delete from claim where id = p_id;
    end if;
    call settle(p_name, moment, 0, bells, ahead); -- also where nothing was found: it may have been removed by hand
    if answer = 2 then
      call tell_first(p_name, bells);
    end if;
  end if;
  commit;
  call ring_all(bells);
  select answer;
end//

-- Confirms holdings, and lengthens those of which a sixth is over and whose ttl is not given as 0. p_claims is
-- 16 bytes of ID and 8 of ttl for each. Answers "id microseconds wanted," for each that is held: how long is
-- left, and whether the last in the queue waits.
drop procedure if exists renew//
create procedure renew(p_claims mediumblob)
begin
  declare answer mediumtext default '';
  declare moment, c_ttl, time_left, at_byte bigint default 1;
  declare c_id binary(16);
  declare c_name varbinary(1024);
  declare c_renewable, c_wanted tinyint;
  call begin_transaction();
  while at_byte < length(p_claims) do
    set c_id = substr(p_claims, at_byte, 16), c_ttl = conv(hex(substr(p_claims, at_byte + 16, 8)), 16, 10);
    set at_byte = at_byte + 24, c_name = null, moment = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    select name, expires - moment, renewable into c_name, time_left, c_renewable from claim
      where id = c_id and token is not null and expires > moment;
    if c_name is not null and c_ttl > 0 and c_renewable and time_left not between c_ttl * 5000 div 6 and c_ttl * 1000 then
      select id into c_id from claim where id = c_id for update; -- as in settle
      set moment = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
      update claim set expires = moment + c_ttl * 1000 where id = c_id and renewable and token is not null and expires > moment;
      set c_name = if(row_count() > 0, c_name, null), time_left = c_ttl * 1000;
    end if;
    if c_name is not null then
      set c_wanted = 0;
      select token is null into c_wanted from claim where name = c_name order by ticket desc limit 1; -- within "set" it would lock
      set answer = concat(answer, lower(hex(c_id)), ' ', time_left, ' ', c_wanted, ',');
    end if;
  end while;
  commit;
  select answer;
end//

-- Gives a holder a smaller weight and grants the name to those for whom that makes room. Answers 0 if the claim
-- does not hold the name.
drop procedure if exists lighten//
create procedure lighten(p_name varbinary(1024), p_id binary(16), p_weight int)
begin
  declare moment, ahead bigint;
  declare held int;
  declare bells mediumblob default '';
  call lock_name(p_name, moment);
  update claim set weight = least(weight, p_weight)
    where id = p_id and name = p_name and token is not null and expires > moment;
  set held = exists (select 1 from claim where id = p_id and name = p_name and token is not null and expires > moment);
  call settle(p_name, moment, 0, bells, ahead);
  commit;
  call ring_all(bells);
  select held;
end//

-- Answers what is new of claims that wait: "granted id token spare since," or "look id," for one that is gone, or
-- ought to ask again. p_claims is 16 bytes of ID and one more for each, which is 0 as long as the claim may not have
-- joined its queue. Where there is nothing new it sleeps for up to p_seconds, until somebody rings. With p_alone, those
-- that wait without a listener are kept.
--
-- To sleep is to wait for a named lock, which an idle connection has, the keeper. If there is no keeper, this connection
-- is it from now on: the answer is "keeper". During get_lock() the server looks every second whether the client is gone,
-- during sleep() every five; and during sleep() MariaDB takes two seconds for a KILL QUERY if another came just before.
-- The rows are read by a cursor, because MariaDB forgets a KILL QUERY that comes during a select ... into.
drop procedure if exists hear//
create procedure hear(p_claims mediumblob, p_seconds int, p_alone tinyint)
begin
  declare news mediumtext default '';
  declare moment, at_byte, c_ttl, c_token, c_spare, c_since, c_expires, c_listener bigint;
  declare c_id binary(16);
  declare c_stale tinyint;
  declare news_of cursor for select token, spare, since, expires, ttl, stale, listener from claim where id = c_id;
  declare continue handler for not found begin end;
  listening: loop
    call begin_transaction();
    set at_byte = 1, moment = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
    while at_byte < length(p_claims) do
      set c_id = substr(p_claims, at_byte, 16), c_stale = ord(substr(p_claims, at_byte + 16, 1)), c_token = null;
      set at_byte = at_byte + 17, c_expires = null;
      open news_of;
      fetch news_of into c_token, c_spare, c_since, c_expires, c_ttl, c_stale, c_listener;
      close news_of;
      if c_token is not null then
        set news = concat(news, 'granted ', lower(hex(c_id)), ' ', c_token, ' ', c_spare, ' ', c_since, ',');
      elseif c_stale then
        set news = concat(news, 'look ', lower(hex(c_id)), ',');
      elseif p_alone and c_listener is null and c_expires < moment + greatest(c_ttl, 1000) * 667 then
        update claim set expires = moment + greatest(c_ttl, 1000) * 1000 where id = c_id and token is null;
      end if;
    end while;
    commit;
    if news <> '' or p_seconds = 0 then
      leave listening;
    end if;
    if get_lock('locker.asleep', p_seconds) then
      set news = 'keeper';
      leave listening;
    end if;
    set p_seconds = 0;
  end loop;
  select news;
end//

-- Shows the queue of a name. It changes nothing.
drop procedure if exists look//
create procedure look(p_name varbinary(1024))
begin
  declare moment bigint default timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
  call begin_transaction();
  select lower(hex(id)), weight, most, owner, token, since, expires - moment
    from claim where name = p_name and expires > moment order by ticket;
  commit;
end//

-- Shows the names that begin with a prefix and are held or waited for.
drop procedure if exists names//
create procedure names(p_prefix varbinary(1024))
begin
  declare moment bigint default timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
  call begin_transaction();
  select distinct name from claim where name >= p_prefix and left(name, length(p_prefix)) = p_prefix and expires > moment;
  commit;
end//

-- Removes what those left behind who are gone, and in whose names nobody was interested since.
drop procedure if exists sweep//
create procedure sweep()
begin
  declare moment bigint default timestampdiff(microsecond, '1970-01-01', utc_timestamp(6));
  call begin_transaction();
  delete from given_up where expires < moment;
  delete claim from (select id from claim where expires < moment - 60000000 limit 10000) gone
    straight_join claim on claim.id = gone.id where claim.expires < moment - 60000000;
  commit;
end//

-- Says that all is there.
create procedure schema_version() select 1//
do release_lock('locker: create schema')//
delimiter ;
