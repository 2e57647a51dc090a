-- Nexmark without a broker: generated persons, auctions and bids, and the bids of each auction in windows of ten seconds.
--   penstock run examples/nexmark.sql
CREATE TABLE IF NOT EXISTS events (
  event_type INT,
  person ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
    `dateTime` TIMESTAMP(3), extra STRING>,
  auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
    `dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3),
    extra STRING>,
  `dateTime` AS CASE WHEN event_type = 0 THEN person.`dateTime` WHEN event_type = 1 THEN auction.`dateTime`
    ELSE bid.`dateTime` END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark', 'events.num' = '100000', 'first-event.rate' = '1000');

CREATE VIEW IF NOT EXISTS bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, `dateTime`, bid.extra
FROM events WHERE event_type = 2;

CREATE TABLE IF NOT EXISTS busy_auctions (
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), auction BIGINT, bids BIGINT, highest BIGINT
) WITH ('connector' = 'delta', 'path' = 'busy_auctions');

INSERT INTO busy_auctions
SELECT window_start, window_end, auction, COUNT(*) AS bids, MAX(price) AS highest
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, auction
HAVING COUNT(*) > 100;
