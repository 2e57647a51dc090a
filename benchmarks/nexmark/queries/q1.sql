-- title: convert prices
-- result: auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), `dateTime` TIMESTAMP(3), extra STRING
SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bid
