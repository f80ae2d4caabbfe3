import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Has clients of a Java library take one name in turn, each in a thread of its own, and measures that as the
 * comparison does with libraries in Go.
 *
 * <p>Arguments: the library, the server's address, the number of clients, the TTL in milliseconds. It prints "ready" when all are
 * connected; then for each line "NAME WARM WINDOW" of its input (in milliseconds) a line of JSON. It ends with its input.
 */
public final class Compete {
  /** A way to take a name and give it back. */
  interface Lock {
    void acquire() throws Exception;

    void release() throws Exception;
  }

  /** One client with connections of its own. */
  interface Client {
    Lock lock(String name);
  }

  /** How many milliseconds a waiter is given after the window before it counts as stuck. */
  private static final long PATIENCE = 10_000;

  public static void main(String[] args) throws Exception {
    int n = Integer.parseInt(args[2]);
    List<Client> clients = new ArrayList<>();
    for (int i = 0; i < n; i++) {
      clients.add(open(args[0], args[1], Long.parseLong(args[3])));
    }
    System.out.println("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      System.out.println(new Compete(clients, words[0]).run(Long.parseLong(words[1]), Long.parseLong(words[2])));
    }
    System.exit(0); // not waiting for the threads of the libraries
  }

  private static Client open(String library, String address, long ttl) throws Exception {
    if (library.equals("curator")) {
      CuratorFramework c = CuratorFrameworkFactory.newClient(address, (int) ttl, 15_000, new ExponentialBackoffRetry(100, 3));
      c.start();
      c.blockUntilConnected();
      return name -> {
        InterProcessMutex mutex = new InterProcessMutex(c, "/curator/" + name.replace('/', '-'));
        return new Lock() {
          public void acquire() throws Exception {
            mutex.acquire();
          }

          public void release() throws Exception {
            mutex.release();
          }
        };
      };
    }
    Config config = new Config();
    config.setLockWatchdogTimeout(ttl);
    config.setNettyThreads(2).setThreads(2); // of 32 and 16 for each of 16 clients on one machine
    config.useSingleServer().setAddress("redis://" + address).setConnectionMinimumIdleSize(2);
    RedissonClient r = Redisson.create(config);
    boolean fair = library.equals("redisson-fair");
    return name -> {
      RLock lock = fair ? r.getFairLock(name) : r.getLock(name);
      return new Lock() {
        public void acquire() {
          lock.lock();
        }

        public void release() {
          lock.unlock();
        }
      };
    };
  }

  private final List<Client> clients;
  private final String name;
  private final AtomicInteger inside = new AtomicInteger();
  private final AtomicInteger overlaps = new AtomicInteger();
  private final AtomicLong released = new AtomicLong();
  private volatile boolean open;
  private volatile boolean over;
  private volatile Exception failed;

  private Compete(List<Client> clients, String name) {
    this.clients = clients;
    this.name = name;
  }

  /** What one client has seen, in nanoseconds. */
  private static final class Seen {
    final List<Long> acquire = new ArrayList<>();
    final List<Long> handOver = new ArrayList<>();
    final List<Long> pair = new ArrayList<>();
    int count;
  }

  private String run(long warm, long window) throws Exception {
    List<Seen> all = new ArrayList<>();
    CountDownLatch done = new CountDownLatch(clients.size());
    for (Client client : clients) {
      Seen seen = new Seen();
      all.add(seen);
      Thread thread = new Thread(() -> {
        try {
          compete(client.lock(name), seen);
        } catch (Exception e) {
          failed = e;
        }
        done.countDown();
      });
      thread.setDaemon(true);
      thread.start();
    }
    Thread.sleep(warm);
    open = true;
    long start = System.nanoTime();
    Thread.sleep(window);
    over = true;
    long took = System.nanoTime() - start;
    done.await(PATIENCE, java.util.concurrent.TimeUnit.MILLISECONDS);
    if (failed != null) {
      throw failed;
    }
    return report(all, took, done.getCount());
  }

  private void compete(Lock lock, Seen seen) throws Exception {
    while (!over) {
      long asked = System.nanoTime();
      lock.acquire();
      long got = System.nanoTime();
      if (inside.incrementAndGet() > 1) {
        overlaps.incrementAndGet();
      }
      boolean counts = open && !over;
      long last = released.get();
      inside.decrementAndGet();
      released.set(System.nanoTime());
      lock.release();
      synchronized (seen) {
        if (open) { // also those who got it late: they waited longest
          seen.acquire.add(got - asked);
        }
        if (counts) {
          seen.count++;
          seen.pair.add(System.nanoTime() - asked);
          if (last != 0) {
            seen.handOver.add(got - last);
          }
        }
      }
    }
  }

  private String report(List<Seen> all, long took, long stuck) {
    List<Integer> counts = new ArrayList<>();
    List<Long> acquire = new ArrayList<>();
    List<Long> handOver = new ArrayList<>();
    List<Long> pair = new ArrayList<>();
    for (Seen seen : all) {
      synchronized (seen) { // those who are stuck still have theirs
        counts.add(seen.count);
        acquire.addAll(seen.acquire);
        handOver.addAll(seen.handOver);
        pair.addAll(seen.pair);
      }
    }
    return String.format(
        "{\"took\":%d,\"stuck\":%d,\"overlaps\":%d,\"counts\":%s,\"acquire\":%s,\"handOver\":%s,\"pair\":%s}",
        took, stuck, overlaps.get(), counts, acquire, handOver, pair);
  }
}
