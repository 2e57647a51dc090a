-- title: pass bids on
-- result: auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra STRING
SELECT auction, bidder, price, `dateTime`, extra FROM bid
