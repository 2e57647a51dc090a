-- title: select some auctions
-- result: auction BIGINT, price BIGINT
SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0
